# SPDX-License-Identifier: Apache-2.0
"""exec_sandbox's Scheduler. Who waits for whom, what is started ahead and what is cached is the mount's business."""
import json
import time
import weakref
from pathlib import Path

import xsbx

from .config import SchedulerConfig
from .exceptions import PackageNotAllowedError, SandboxError, VmConfigError
from .models import ExposedPort, Language, PortMapping
from .session import Session


class Scheduler:
    def __init__(self, config=None):
        self.config, self._sessions = config or SchedulerConfig(), None

    async def __aenter__(self):
        self._sessions = weakref.WeakSet()
        return self

    async def __aexit__(self, *_error):
        sessions, self._sessions = list(self._sessions), None
        for session in sessions:
            await session.close()

    async def wait_pool_ready(self, timeout=120):
        """Whoever comes before the mount's pool is ready takes what is on its way."""

    async def run(self, code, *, language, packages=None, timeout_seconds=None, memory_mb=None, allow_network=False,
                  allowed_domains=None, expose_ports=None, env_vars=None, on_stdout=None, on_stderr=None, on_boot_log=None):
        begin = time.monotonic()
        session = await self.session(language=language, packages=packages, memory_mb=memory_mb, allow_network=allow_network,
                                     allowed_domains=allowed_domains, expose_ports=expose_ports, on_boot_log=on_boot_log)
        async with session:
            result = await session.exec(code, timeout_seconds=timeout_seconds, env_vars=env_vars, on_stdout=on_stdout,
                                        on_stderr=on_stderr)
            sandbox = json.loads((session._session.path / "status.json").read_bytes())["sandbox"] or {}
        result.exposed_ports, result.timing.boot_ms = session.exposed_ports, sandbox.get("boot_ms", 0)
        result.warm_pool_hit, result.l1_cache_hit = (sandbox.get("start") == how for how in ("warm", "snapshot"))
        result.timing.total_ms = round((time.monotonic() - begin) * 1000)
        return result

    async def session(self, *, language, packages=None, memory_mb=None, allow_network=False, allowed_domains=None,
                      expose_ports=None, idle_timeout_seconds=None, on_boot_log=None):
        if self._sessions is None:
            raise SandboxError("Scheduler not started. Use: async with Scheduler() as scheduler:")
        ports = [port if isinstance(port, PortMapping) else PortMapping(port) for port in expose_ports or []]
        if any(port.protocol != "tcp" for port in ports):
            raise VmConfigError("ports of UDP are not forwarded")
        config = self._lines({
            "idle": "close", "idle_timeout_s": idle_timeout_seconds or self.config.session_idle_timeout_seconds,
            "memory_mb": memory_mb or self.config.default_memory_mb, "packages": " ".join(packages or []),
            "network": "on" if allow_network else None, "allow": " ".join(allowed_domains or ["*"]) if allow_network else None,
            "ports": " ".join(f"{port.external}:{port.internal}" if port.external else str(port.internal) for port in ports)})
        place = Path(self.config.mount, Language(language).value)
        try:
            session = Session(xsbx.Session(place, config), self.config.default_timeout_seconds)
        except xsbx.Failed as failed:
            raise (PackageNotAllowedError if packages and "packages" in str(failed) else VmConfigError)(str(failed)) from failed
        self._sessions.add(session)
        if ports or on_boot_log:
            await self._start(session, on_boot_log)
        return session

    @staticmethod
    def _lines(settings):
        lines = [f"{name} = {value}" for name, value in settings.items() if value]
        if any("\n" in line for line in lines):
            raise VmConfigError("a line break in a setting")
        return "\n".join([*lines, ""])

    @staticmethod
    async def _start(session, on_boot_log):
        """Its ports are known, and its console has something to tell, when there is a sandbox."""
        async with session._guard() as made:
            await made.job(["true"]).wait()
            rows = [line.split() for line in (made.path / "ports").read_text().splitlines()]
            session.exposed_ports = [ExposedPort(int(guest), int(host)) for guest, host, _url in rows]
            for line in (made.path / "console").read_text(errors="replace").splitlines() if on_boot_log else []:
                on_boot_log(line)
