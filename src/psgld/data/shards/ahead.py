"""Prefetching: another thread computes the next item while the current one is used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ...system.limits import check_room_for_threads

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items in the same order, with the next one prefetched; errors are raised in that order, too."""
    end = object()
    check_room_for_threads(1)
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(next, items, end)
        while (item := pending.result()) is not end:
            pending = pool.submit(next, items, end)
            yield item  # type: ignore[misc]
