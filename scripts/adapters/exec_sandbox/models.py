# SPDX-License-Identifier: Apache-2.0
"""What goes into exec_sandbox's calls, and what comes out of them. Figures that a mount does not have are None."""
import dataclasses
import enum


class Language(str, enum.Enum):
    PYTHON = "python"
    JAVASCRIPT = "javascript"
    RAW = "raw"


@dataclasses.dataclass
class FileInfo:
    name: str
    is_dir: bool
    size: int


@dataclasses.dataclass
class PortMapping:
    internal: int
    external: int | None = None
    protocol: str = "tcp"

    def __post_init__(self):
        if not (1 <= self.internal <= 65535 and (self.external is None or 1024 <= self.external <= 65535)):
            raise ValueError(f"{self.external}:{self.internal}: ports are from 1 to 65535, of the host from 1024, or None")
        if self.protocol not in ("tcp", "udp"):
            raise ValueError(f"{self.protocol!r} is neither tcp nor udp")


@dataclasses.dataclass
class ExposedPort:
    internal: int
    external: int
    host: str = "127.0.0.1"
    protocol: str = "tcp"

    @property
    def url(self):
        return f"http://{self.host}:{self.external}"


@dataclasses.dataclass
class TimingBreakdown:
    setup_ms: int
    boot_ms: int
    execute_ms: int
    total_ms: int
    connect_ms: int | None = None
    admission_ms: int | None = None
    overlay_ms: int | None = None
    qemu_cmd_build_ms: int | None = None
    gvproxy_start_ms: int | None = None
    qemu_fork_ms: int | None = None
    guest_wait_ms: int | None = None
    l1_restore_ms: int | None = None
    teardown_ms: int | None = None
    boot_retries: int = 0


@dataclasses.dataclass
class ExecutionResult:
    stdout: str
    stderr: str
    exit_code: int
    timing: TimingBreakdown
    execution_time_ms: int | None = None
    external_cpu_time_ms: int | None = None
    external_memory_peak_mb: int | None = None
    external_cpu_nr_throttled: int | None = None
    warm_pool_hit: bool = False
    l1_cache_hit: bool = False
    spawn_ms: int | None = None
    process_ms: int | None = None
    exposed_ports: list[ExposedPort] = dataclasses.field(default_factory=list)
