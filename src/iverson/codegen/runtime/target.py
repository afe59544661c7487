"""Target machine: the name, features and vector width of this processor, and LLVM's object for it.

LLVM's binding is imported here and in `codegen.execution.object_code` only, when first needed: not where all
code is on disk.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from iverson.codegen.runtime import kernel_cache
from iverson.core.python import locks

#: LLVM's context is not safe against concurrent use; whoever calls LLVM holds this.
lock = locks.library_lock()


@dataclass(frozen=True)
class Machine:
    """Properties of a processor that emission needs.

    vector_bytes : the width of its vector registers.
    has_fma : whether a fused multiply-add is one instruction.
    has_half : whether conversions between float16 and float are.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    has_fma: bool
    has_half: bool = False

    @property
    def registers(self) -> int:
        """The number of vector registers."""
        return 32 if "+avx512vl" in self.features or self.triple.startswith(("aarch64", "arm64")) else 16


def available() -> int:
    """Number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@functools.cache
def host() -> Machine:
    """The machine this process runs on, as LLVM has told some process of the same processor."""
    described = _processor()
    key = described and kernel_cache.key(f"machine {described}")
    content = kernel_cache.read(key) if key else None
    if content is not None:
        return Machine(**json.loads(content))
    machine = _detected()
    if key:
        kernel_cache.write(key, json.dumps(asdict(machine)).encode())
    return machine


#: What Linux says of a processor that varies with time.
_VARIES = ("processor", "cpu MHz", "bogomips", "core id", "apicid", "initial apicid", "physical id")


def _processor() -> str:
    """Description of the processor by the system; empty if it cannot be read."""
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read(1 << 14).partition("\n\n")[0]
    except OSError:
        return ""
    lines = [x for x in first.splitlines() if x.partition("\t")[0].partition(":")[0].strip() not in _VARIES]
    return "\n".join(lines) if any(x.startswith(("flags", "Features")) for x in lines) else ""


def _detected() -> Machine:
    """The machine as LLVM detects it."""
    import llvmlite.binding as llvm

    with lock:
        features = llvm.get_host_cpu_features()
        triple = llvm.get_process_triple()
        name = llvm.get_host_cpu_name()
    wide, medium = features.get("avx512f", False), features.get("avx2", False)
    arm = triple.startswith(("aarch64", "arm64"))
    return Machine(
        triple,
        name,
        features.flatten(),
        64 if wide else 32 if medium else 16,
        bool(features.get("fma", False)) or arm,
        bool(features.get("f16c", False)) or arm,
    )


@functools.cache
def start() -> None:
    """Make LLVM ready for this processor (under `lock`)."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def target_machine(machine: Machine) -> Any:
    """LLVM's target machine for a processor (under `lock`)."""
    import llvmlite.binding as llvm

    start()
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=2, reloc="pic", codemodel="small"
    )
