# SPDX-License-Identifier: Apache-2.0
"""exec_sandbox's SchedulerConfig. The first four count; the rest is accepted."""
import dataclasses
import os
from pathlib import Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    mount: str = dataclasses.field(default_factory=lambda: os.environ.get("XSBX_MOUNT", "/sbx"))
    default_memory_mb: int | None = None  # None: as the template has it
    default_timeout_seconds: int = 30
    session_idle_timeout_seconds: int = 300

    warm_pool_size: int = 0
    images_dir: Path | None = None
    disk_snapshot_cache_dir: Path | None = None
    memory_snapshot_cache_dir: Path | None = None
    s3_bucket: str | None = None
    s3_region: str = "us-east-1"
    s3_prefix: str = "snapshots/"
    max_concurrent_s3_uploads: int = 4
    memory_overcommit_ratio: float = 1.0
    cpu_overcommit_ratio: float = 1.0
    host_memory_reserve_ratio: float = 0.1
    host_cpu_reserve_cores: float = 0.5
    enable_package_validation: bool = True
    auto_download_assets: bool = True
