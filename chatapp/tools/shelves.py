"""What a process keeps to be quick: the tools of each service as they were made last, for as long
as nothing about them changed. Nothing depends on it."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from django.db.models import Aggregate, Count, Max, QuerySet, Sum

from mcpconfig.models import Service, ToolDefinition, ToolSetting

T = TypeVar("T")
State = tuple[object, ...]


class Shelves(Generic[T]):
    """Values of one size or another, of which the ones that were used last are kept."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[Hashable, tuple[State, Sequence[T]]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, state: State) -> Sequence[T] | None:
        """What was made of this state."""
        with self._lock:
            held = self._kept.get(key)
            if held is None or held[0] != state:
                return None
            self._kept.move_to_end(key)
            return held[1]

    def put(self, key: Hashable, state: State, values: Sequence[T]) -> None:
        with self._lock:
            self._kept[key] = (state, values)
            self._kept.move_to_end(key)
            while len(self) > self._room and len(self._kept) > 1:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return sum(len(values) for _, values in self._kept.values())

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


def states_of(services: Iterable[Service]) -> Mapping[int, State]:
    """For each service all that its tools are made of, so short that it can be read before each
    use. A listing stamps the service; settings carry marks."""
    by_id = {service.pk: service for service in services}
    definitions = ToolDefinition.objects.filter(is_current=True, service__in=by_id)
    settings = ToolSetting.objects.filter(service__in=by_id)
    told = _by_service(definitions, Max("pk"))
    decided = _by_service(settings, Sum("mark"))
    return {
        pk: (
            service.name,
            service.endpoint,
            service.is_trusted,
            service.tools_listed_at,
            told.get(pk),
            decided.get(pk),
        )
        for pk, service in by_id.items()
    }


def _by_service(rows: QuerySet[Any], mark: Aggregate) -> dict[int, State]:
    grouped = rows.order_by().values_list("service").annotate(Count("pk"), mark)
    return {service: tuple(told) for service, *told in grouped}
