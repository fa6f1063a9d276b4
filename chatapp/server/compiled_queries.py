"""Querysets that are compiled to SQL once and then run with other values.

For a query that every message needs, the ORM takes several times longer to build the statement than
the database takes to run it. A compiled query builds it on its first use and keeps the text.

    @compiled
    def load_turn(turn_id: uuid.UUID, owner: str) -> QuerySet[Turn]:
        return Turn.objects.filter(pk=turn_id, lease_owner=owner)

    turn = load_turn.first(lease.turn_id, lease.owner)

The function is called once, with a placeholder for each parameter, which it may only compare
columns with or store in them. Parameters are of the types in `PLACEHOLDERS`, and never None: a
comparison with NULL is another statement.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from inspect import signature
from typing import Any, Generic, TypeVar, TypeVarTuple

from django.db import connection, models
from django.db.models import QuerySet
from django.db.models.query import (
    FlatValuesListIterable,
    ModelIterable,
    ValuesListIterable,
    get_related_populators,
)
from django.db.models.sql import UpdateQuery
from django.utils.duration import duration_microseconds

Row = TypeVar("Row")
Ts = TypeVarTuple("Ts")
Read = Callable[[Sequence[Sequence[Any]]], list[Any]]

# Values that no query has as a constant, by the type of the parameter and its place.
PLACEHOLDERS: dict[type, Callable[[int], Any]] = {
    uuid.UUID: lambda place: uuid.UUID(int=0xC0DE_0000_0000_0000_0000_0000_0000_0000 + place),
    str: lambda place: f"a value of a compiled query {place}",
    int: lambda place: 2_100_000_000 + place,
    timedelta: lambda place: timedelta(microseconds=2_200_000_000 + place),
    date: lambda place: date(1, 1, 1 + place),
    Decimal: lambda place: Decimal(12_345 + place),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with its parameters: constants, and the values of a call by their places."""

    sql: str
    constants: tuple[Any, ...]
    places: tuple[tuple[int, int], ...]  # in `constants`, and among the values of a call
    read: Read = list

    def bind(self, values: Sequence[object]) -> list[Any]:
        bound = list(self.constants)
        for target, source in self.places:
            bound[target] = to_column(values[source])
        return bound


class _Compiled(Generic[*Ts]):
    def __init__(self, build: Callable[..., Any]) -> None:
        self._build = build
        self._types = [each.annotation for each in signature(build).parameters.values()]
        self._statements: dict[str, Statement] = {}
        self.__doc__ = build.__doc__

    def _find(self) -> Statement:
        statement = self._statements.get(connection.vendor)
        if statement is None:
            statement = self._statements[connection.vendor] = self._compile()
        return statement

    def _compile(self) -> Statement:
        values = [PLACEHOLDERS[kind](place) for place, kind in enumerate(self._types)]
        sql, constants, read = self._to_sql(self._build(*values))
        adapted = [to_column(value) for value in values]
        places = [
            (target, adapted.index(constant))
            for target, constant in enumerate(constants)
            if constant in adapted
        ]
        unused = set(range(len(values))) - {source for _target, source in places}
        if unused:
            raise TypeError(f"{self._build.__name__} does not use all of its parameters as values.")
        return Statement(sql=sql, constants=tuple(constants), places=tuple(places), read=read)

    def _to_sql(self, built: Any) -> tuple[str, Sequence[Any], Read]:
        raise NotImplementedError


class CompiledQuery(_Compiled[*Ts], Generic[*Ts, Row]):
    """A queryset of models, with the related ones that it selects, or of `values_list`."""

    def __call__(self, *values: *Ts) -> list[Row]:
        statement = self._find()
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.bind(values))
            return statement.read(cursor.fetchall())

    def first(self, *values: *Ts) -> Row | None:
        return next(iter(self(*values)), None)

    def _to_sql(self, built: Any) -> tuple[str, Sequence[Any], Read]:
        if built._prefetch_related_lookups:
            raise TypeError("A compiled query is one statement and prefetches nothing.")
        compiler = built.query.get_compiler(built.db)
        sql, constants = compiler.as_sql()
        return sql, constants, _build_reader(built, compiler)


class CompiledUpdate(_Compiled[*Ts]):
    """An update of one table. Its call returns how many rows matched."""

    def __call__(self, *values: *Ts) -> int:
        statement = self._find()
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.bind(values))
            count: int = cursor.rowcount
            return count

    def _to_sql(self, built: Any) -> tuple[str, Sequence[Any], Read]:
        queryset, changes = built
        query = queryset.query.chain(UpdateQuery)
        query.clear_ordering(force=True)
        query.add_update_values(changes)
        return *query.get_compiler(queryset.db).as_sql(), list


def compiled(
    build: Callable[[*Ts], QuerySet[Any, Row]],
) -> CompiledQuery[*Ts, Row]:
    return CompiledQuery(build)


def compiled_update(
    build: Callable[[*Ts], tuple[QuerySet[Any, Any], dict[str, Any]]],
) -> CompiledUpdate[*Ts]:
    """`build` returns the rows to change and the new values of their fields."""
    return CompiledUpdate(build)


def insert_rows(rows: Sequence[models.Model]) -> None:
    """Insert rows of one model in one statement, as `bulk_create` does. Nothing is signalled."""
    model = type(rows[0])
    fields = [field for field in model._meta.concrete_fields if not field.generated]
    pk = model._meta.pk
    is_numbered = isinstance(pk, models.AutoField)
    if is_numbered:
        fields.remove(pk)
    values = [
        field.get_db_prep_save(field.pre_save(row, add=True), connection)
        for row in rows
        for field in fields
    ]
    sql = _write_insert(model._meta.db_table, [str(field.column) for field in fields], len(rows))
    with connection.cursor() as cursor:
        if is_numbered:
            cursor.execute(f"{sql} RETURNING {pk.column}", values)
            for row, (number,) in zip(rows, cursor.fetchall(), strict=True):
                row.pk = number
        else:
            cursor.execute(sql, values)
    for row in rows:
        row._state.adding = False
        row._state.db = connection.alias


def to_column(value: Any) -> Any:
    """Return a value as the database stores it."""
    match value:
        case uuid.UUID() if not connection.features.has_native_uuid_field:
            return value.hex
        case timedelta() if not connection.features.has_native_duration_field:
            return duration_microseconds(value)
        case date():
            return connection.ops.adapt_datefield_value(value)
        case _:
            return value


def _write_insert(table: str, columns: Sequence[str], count: int) -> str:
    quote = connection.ops.quote_name
    row = f"({', '.join(['%s'] * len(columns))})"
    names = ", ".join(map(quote, columns))
    # Only names of the model's own tables and columns come into the text.
    return f"INSERT INTO {quote(table)} ({names}) VALUES {', '.join([row] * count)}"  # noqa: S608


# --- rows as the queryset would give them -----------------------------------------------------
def _build_reader(queryset: Any, compiler: Any) -> Read:
    """Return a function of the rows of a cursor, as the iterables of `django.db.models.query`."""
    convert = _build_converter(compiler)
    match queryset._iterable_class:
        case iterable if iterable is ModelIterable:
            build_model = _build_model_builder(compiler, queryset.db)
            return lambda rows: [build_model(row) for row in convert(rows)]
        case iterable if iterable is ValuesListIterable:
            return lambda rows: [tuple(row) for row in convert(rows)]
        case iterable if iterable is FlatValuesListIterable:
            return lambda rows: [row[0] for row in convert(rows)]
    raise TypeError("A compiled query has models or the rows of values_list.")


def _build_converter(compiler: Any) -> Callable[[Iterable[Sequence[Any]]], Iterable[Any]]:
    expressions = [each[0] for each in compiler.select[: compiler.col_count]]
    converters = [
        (column, functions, expression)
        for column, (functions, expression) in compiler.get_converters(expressions).items()
    ]

    def convert(rows: Iterable[Sequence[Any]]) -> Iterable[Any]:
        for row in map(list, rows):
            for column, functions, expression in converters:
                for function in functions:
                    row[column] = function(row[column], expression, connection)
            yield row

    return convert if converters else iter


def _build_model_builder(compiler: Any, alias: str) -> Callable[[list[Any]], Any]:
    info, select = compiler.klass_info, compiler.select
    columns = info["select_fields"]
    first, end = columns[0], columns[-1] + 1
    names = [each[0].target.attname for each in select[first:end]]
    related = get_related_populators(info, select, alias)  # type: ignore[call-arg]  # stubs of Django 6
    annotations = compiler.annotation_col_map or {}
    from_db = info["model"].from_db

    def build(row: list[Any]) -> Any:
        found = from_db(alias, names, row[first:end])
        for each in related:
            each.populate(row, found)
        for name, column in annotations.items():
            setattr(found, name, row[column])
        return found

    return build
