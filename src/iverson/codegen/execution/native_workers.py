"""Native workers: threads that wait in native code and take shares of a program's large loops.

A Python thread enters `iverson_worker` once and stays. `iverson_run(team, function, arguments, total)` hands
out the iterations 0 to ``total`` in a few shares, which are claimed by an atomic counter: the caller takes
shares like the others, and then waits only for shares that somebody has claimed, since on a shared machine a
worker may be off its core for milliseconds. Workers spin for some ten microseconds, then sleep. One call at a
time has the team; another runs alone.

The team's memory, in words of 64 bits (those that different threads write are in lines of their own)::

    0   state: number of the job << 32 | shares << 16 | shares claimed
    8   shares done
    16  function, arguments, total
    24  whether a call has the team
    32  sleeping workers, whether to stop, number of threads
    40  mutex         56  condition

A worker that reads a state too late fails to claim by it, as the number of the job has changed.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from typing import Any

import numpy as np

from iverson.codegen.execution import object_code
from iverson.codegen.runtime import kernel_cache
from iverson.codegen.runtime.target import Machine, available, host
from iverson.core.python import locks

#: Shares for each thread: so many that one that is late does not hold up the others for long.
EACH = 4
#: Turns of a worker's loop before it sleeps, and of a caller's before it lets others run.
SPINS = 400

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_POSIX = hasattr(os, "fork")

_COMMON = """
define void @iverson_shares(ptr %team) {
entry:
  %done = getelementptr i64, ptr %team, i64 8
  %pf = getelementptr i64, ptr %team, i64 16
  %pa = getelementptr i64, ptr %team, i64 17
  %pt = getelementptr i64, ptr %team, i64 18
  br label %look
look:
  %state = load atomic i64, ptr %team acquire, align 8
  %next = and i64 %state, 65535
  %shifted = lshr i64 %state, 16
  %count = and i64 %shifted, 65535
  %some = icmp ult i64 %next, %count
  br i1 %some, label %claim, label %end
claim:
  %more = add i64 %state, 1
  %pair = cmpxchg ptr %team, i64 %state, i64 %more acq_rel acquire
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %work, label %look
work:
  %function = load ptr, ptr %pf, align 8
  %arguments = load ptr, ptr %pa, align 8
  %total = load i64, ptr %pt, align 8
  %low = mul i64 %total, %next
  %first = udiv i64 %low, %count
  %high = add i64 %low, %total
  %last = udiv i64 %high, %count
  call void %function(i64 %first, i64 %last, ptr %arguments)
  %was = atomicrmw add ptr %done, i64 1 release
  br label %look
end:
  ret void
}

define void @iverson_run(ptr %team, ptr %function, ptr %arguments, i64 %total) {
entry:
  %done = getelementptr i64, ptr %team, i64 8
  %pf = getelementptr i64, ptr %team, i64 16
  %pa = getelementptr i64, ptr %team, i64 17
  %pt = getelementptr i64, ptr %team, i64 18
  %busy = getelementptr i64, ptr %team, i64 24
  %sleepers = getelementptr i64, ptr %team, i64 32
  %pn = getelementptr i64, ptr %team, i64 34
  %threads = load i64, ptr %pn, align 8
  %several = icmp ugt i64 %threads, 1
  br i1 %several, label %take, label %alone
take:
  %pair = cmpxchg ptr %busy, i64 0, i64 1 acq_rel acquire
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %post, label %alone
alone:
  call void %function(i64 0, i64 %total, ptr %arguments)
  ret void
post:
  store ptr %function, ptr %pf, align 8
  store ptr %arguments, ptr %pa, align 8
  store i64 %total, ptr %pt, align 8
  store atomic i64 0, ptr %done monotonic, align 8
  %many = mul i64 %threads, EACH
  %fewer = icmp ult i64 %total, %many
  %shares = select i1 %fewer, i64 %total, i64 %many
  %old = load atomic i64, ptr %team monotonic, align 8
  %number = lshr i64 %old, 32
  %job = add i64 %number, 1
  %upper = shl i64 %job, 32
  %middle = shl i64 %shares, 16
  %state = or i64 %upper, %middle
  store atomic i64 %state, ptr %team seq_cst, align 8
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %wake = icmp ne i64 %asleep, 0
  br i1 %wake, label %call, label %own
call:
  call void @iverson_wake(ptr %team)
  br label %own
own:
  call void @iverson_shares(ptr %team)
  br label %wait
wait:
  %turn = phi i64 [0, %own], [%turns, %pause], [0, %yield]
  %finished = load atomic i64, ptr %done acquire, align 8
  %all = icmp uge i64 %finished, %shares
  br i1 %all, label %end, label %idle
idle:
  %turns = add i64 %turn, 1
  %long = icmp ugt i64 %turns, SPINS
  br i1 %long, label %yield, label %pause
pause:
  PAUSE
  br label %wait
yield:
  YIELD
  br label %wait
end:
  store atomic i64 0, ptr %busy release, align 8
  ret void
}
"""

_THREADS = """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

define void @iverson_begin(ptr %team) {
  %mutex = getelementptr i64, ptr %team, i64 40
  %condition = getelementptr i64, ptr %team, i64 56
  %a = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}

define void @iverson_wake(ptr %team) {
  %mutex = getelementptr i64, ptr %team, i64 40
  %condition = getelementptr i64, ptr %team, i64 56
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = call i32 @pthread_cond_broadcast(ptr %condition)
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

define void @iverson_worker(ptr %team) {
entry:
  %sleepers = getelementptr i64, ptr %team, i64 32
  %pstop = getelementptr i64, ptr %team, i64 33
  %mutex = getelementptr i64, ptr %team, i64 40
  %condition = getelementptr i64, ptr %team, i64 56
  br label %work
work:
  call void @iverson_shares(ptr %team)
  br label %spin
spin:
  %turn = phi i64 [0, %work], [%turns, %pause]
  %state = load atomic i64, ptr %team acquire, align 8
  %next = and i64 %state, 65535
  %shifted = lshr i64 %state, 16
  %count = and i64 %shifted, 65535
  %some = icmp ult i64 %next, %count
  br i1 %some, label %work, label %idle
idle:
  %turns = add i64 %turn, 1
  %long = icmp ugt i64 %turns, SPINS
  br i1 %long, label %sleep, label %pause
pause:
  PAUSE
  br label %spin
sleep:
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %check
check:
  %stop = load atomic i64, ptr %pstop seq_cst, align 8
  %stops = icmp ne i64 %stop, 0
  br i1 %stops, label %awake, label %look
look:
  %state2 = load atomic i64, ptr %team seq_cst, align 8
  %next2 = and i64 %state2, 65535
  %shifted2 = lshr i64 %state2, 16
  %count2 = and i64 %shifted2, 65535
  %some2 = icmp ult i64 %next2, %count2
  br i1 %some2, label %awake, label %rest
rest:
  %c = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
awake:
  %d = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %e = call i32 @pthread_mutex_unlock(ptr %mutex)
  br i1 %stops, label %end, label %work
end:
  ret void
}
"""

#: Where there are no such threads, whoever calls works alone.
_ALONE = """
define void @iverson_begin(ptr %team) {
  ret void
}
define void @iverson_wake(ptr %team) {
  ret void
}
define void @iverson_worker(ptr %team) {
  ret void
}
"""


def module(machine: Machine) -> str:
    """Text of the LLVM IR of all functions for the workers, for a processor."""
    pause, declared = "fence acquire", ""
    if machine.triple.startswith(("x86_64", "i686")):
        pause, declared = "call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()\n"
    elif machine.triple.startswith(("aarch64", "arm64")):
        pause, declared = "call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)\n"
    text = declared + _COMMON + (_THREADS if _POSIX else _ALONE)
    yield_call = "%ignored = call i32 @sched_yield()" if _POSIX else pause
    for name, value in (("EACH", str(EACH)), ("SPINS", str(SPINS)), ("PAUSE", pause), ("YIELD", yield_call)):
        text = text.replace(name, value)
    return text


def _library() -> object_code.Library:
    text = module(host())
    key = kernel_cache.digest(text, host())
    code = kernel_cache.read(key)
    if code is None:
        code = object_code.to_object(text, host())
        kernel_cache.write(key, code)
    names = ("iverson_run", "iverson_begin", "iverson_wake", "iverson_worker")
    return object_code.load(code, names, _ENTRY)


_STOP, _THREADS_AT = 33, 34


class Team:
    """The workers of this process; ``address`` is its memory, and ``run`` the address of `iverson_run`."""

    def __init__(self) -> None:
        self._lock = locks.lock()
        self.memory = np.zeros(144, np.int64)
        start = -(-self.memory.ctypes.data // 64) * 64
        self.words = self.memory[(start - self.memory.ctypes.data) // 8 :]
        self.address = start
        self.started = False
        self.members: list[threading.Thread] = []
        self.run = 0
        #: Machine code that workers are in, and that addresses in programs lead to: it is never unloaded.
        self.library: object_code.Library | None = None

    @property
    def threads(self) -> int:
        """Number of threads that take part, the caller included."""
        return max(1, int(self.words[_THREADS_AT]))

    def start(self, threads: int | None = None) -> None:
        """Start the workers, unless they have been started.

        threads : how many take part, the caller's included (default: as many as processors).
        """
        with self._lock:
            if self.started:
                return
            library = self.library = self.library or _library()
            self.words[:] = 0
            library.functions["iverson_begin"](self.address)
            self.run = library.addresses["iverson_run"]
            count = (available() if threads is None else threads) if _POSIX else 1
            work: Any = library.functions["iverson_worker"]
            for _ in range(count - 1):
                member = threading.Thread(target=work, args=(self.address,), daemon=True, name="iverson")
                member.start()
                self.members.append(member)
            self.words[_THREADS_AT] = count
            self.started = True

    def stop(self) -> None:
        """Let the workers end, and wait until they have."""
        with self._lock:
            if not self.started or self.library is None:
                return
            self.words[_THREADS_AT] = 1
            self.words[_STOP] = 1
            self.library.functions["iverson_wake"](self.address)
            for member in self.members:
                member.join()
            self.members.clear()
            self.started = False

    def forget(self) -> None:
        """Reset the team in a child process, which has no workers: it starts its own when it needs them."""
        self.words[:] = 0
        self.members.clear()
        self.started = False


TEAM = Team()
atexit.register(TEAM.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TEAM.forget)

__all__ = ["TEAM", "Team", "module"]
