"""The level of a tool: the base table, a table of our own cases, and what may raise or lower."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.permissions import reasons
from chatapp.permissions.risk import Risk, ToolFacts, base_risk, classify
from chatapp.permissions.risk_evidence import LEVELS


def judged(
    name: str,
    *,
    description: str = "",
    schema: object = None,
    annotations: object = None,
    is_trusted: bool = False,
    admin_level: str | None = None,
) -> Risk:
    return classify(
        ToolFacts(
            name=name,
            description=description,
            input_schema={"type": "object"} if schema is None else schema,
            annotations=annotations,
            is_trusted=is_trusted,
        ),
        admin_level,
    )


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("delete_note", "high"),
        ("DeleteNote", "high"),
        ("create_note", "high"),
        ("note.create", "high"),
        ("write_note", "medium"),
        ("send_note", "medium"),
        ("write_then_delete", "high"),
        ("read_note", "low"),
        ("drop_table", "low"),
        ("", "low"),
    ],
)
def test_the_base_table_is_kept_literally(name: str, level: str) -> None:
    assert base_risk(name) == level


LOW = """
    list_invoices getWeather search-articles library.book.find show_calendar
    calendar_view asset_list
    list_deleted_rows get_creator read_sender_name list_created_reports count_rows weather
    server_status usage_report describe_table get_run_history resolve_user_id export_status
    buscar_facturas lire_document buchungen_auflisten 查询订单 検索する GETUser listHTTPErrors
    run_logs_query execute_metrics_query convert_currency map_elevation team_guidelines
    translate_letter list_staff_leave ask_library 销售排行 folder_tree city_coordinates
"""
MEDIUM = """
    write_memo update_calendar_entry add_paragraph send_letter replyToThread rename_folder
    archive-thread mark_as_done remove_label_from_letter add_comment create_comment close_ticket
    upload_photo click_button press_key assign_user_to_ticket frobnicate sequential_foo
    actualizar_factura enviar_correo 更新订单 sort_list stop_video start_timer
    watch_update list_sync update_project update_pull_request convert_letter_to_pdf
    edit_page_layout
"""
HIGH = """
    delete_memo deleteMemo memos.destroy purge-cache drop_schema truncate_log_table erase_disk
    create_folder createInvoice clone_repository execute_sql run_command restart_server
    deploy_site rollback_release install_package pause_database stop_cluster merge_branch
    grant_role invite_guest add_user_to_group set_password rotate_api_key update_permissions
    share_folder pay_bill refund_customer transfer_money place_order sign_transaction
    find_and_delete list_or_create report_create get_delete_thing deletememo removeuserandcreate
    eliminar_factura loschen_datei 删除订单 ファイル削除 주문삭제 удалить_счет evaluate_script
    sql_query add_page upgrade_cluster query_run monitor_reset audit_pay restore_project
    merge_pull_request write_sql_query execute_logs_sql approve_timesheet pause_project
"""


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (level, name)
        for level, names in (("low", LOW), ("medium", MEDIUM), ("high", HIGH))
        for name in names.split()
    ],
)
def test_the_name_alone_gives_the_level(level: str, name: str) -> None:
    risk = judged(name)
    assert risk.level == level, risk.reasons
    assert risk.reasons
    assert all(reason.endswith(".") for reason in risk.reasons)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("delete_memo", reasons.NAME_SAYS["deletes"]),
        ("list_memos", reasons.NAME_SAYS["reads"]),
        ("frobnicate", reasons.NAME_SAYS_NOTHING),
        ("deletememo", reasons.NAME_HOLDS_RISKY_VERB),
        ("grant_role", reasons.NAME_SAYS["access"]),
        ("pay_bill", reasons.NAME_SAYS["money"]),
    ],
)
def test_a_level_comes_with_a_reason_that_a_member_understands(name: str, reason: str) -> None:
    assert judged(name).reasons == (reason,)


def test_a_verb_cut_by_invisible_characters_is_found() -> None:
    assert judged("de\u200blete_memo").level == "high"


def test_a_verb_in_letters_of_another_alphabet_is_high() -> None:
    risk = judged("list_d\u0435lete_memo")
    assert risk.level == "high"
    assert risk.reasons == (reasons.NAME_MIXES_ALPHABETS,)


@pytest.mark.parametrize(
    "description",
    [
        "Delete everything older than a day.",
        "Permanently deletes the archive.",
        "This tool executes the text on the host.",
        "Looks harmless. This cannot be undone.",
        "Runs a shell command and reads what it prints.",
        "Run a query of any kind.",
    ],
)
def test_a_grave_description_raises_a_harmless_name(description: str) -> None:
    assert judged("list_memos", description=description).level == "high"


@pytest.mark.parametrize(
    "description",
    ["Run a search over the archive.", "Runs a metrics query.", "Run an audit report."],
)
def test_what_is_run_to_learn_something_raises_nothing(description: str) -> None:
    assert judged("list_memos", description=description).level == "low"


@pytest.mark.parametrize("name", ["frobnicate", "update_memo", "delete_memo"])
def test_a_soothing_description_lowers_nothing(name: str) -> None:
    soothing = "Reads a list. Completely safe and read-only; never changes anything."
    assert judged(name, description=soothing).level == judged(name).level


@pytest.mark.parametrize(
    "annotations",
    [{"destructiveHint": True}, {"readOnlyHint": False}, {"destructiveHint": "yes"}],
)
def test_a_hint_raises_a_harmless_name(annotations: dict[str, Any]) -> None:
    risk = judged("list_memos", annotations=annotations)
    assert risk.level == "medium"
    assert risk.reasons[0].startswith("The service says it")


def test_a_trusted_service_lowers_by_its_hint() -> None:
    hints = {"readOnlyHint": True}
    assert judged("execute_sql", annotations=hints, is_trusted=True).level == "low"
    assert judged("execute_sql", annotations=hints, is_trusted=False).level == "high"


@pytest.mark.parametrize(
    "hints",
    [
        {"readOnlyHint": "true"},
        {"readOnlyHint": 1},
        {"destructiveHint": False},
        {"readOnlyHint": True, "destructiveHint": True},
    ],
)
def test_a_trusted_service_lowers_by_a_clear_word_only(hints: dict[str, Any]) -> None:
    assert judged("delete_memo", annotations=hints, is_trusted=True).level == "high"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["delete_memo", "list_memos"])
def test_an_admins_level_wins(name: str, level: str) -> None:
    risk = judged(name, admin_level=level, annotations={"destructiveHint": True})
    assert risk == Risk(level=level, reasons=(reasons.SET_BY_ADMIN,))  # type: ignore[arg-type]


def test_an_admins_level_that_does_not_exist_is_the_highest() -> None:
    assert judged("list_memos", admin_level="harmless").level == "high"


@pytest.mark.parametrize("schema", ["text", 7, [], {"properties": []}, {"properties": {"a": 1}}])
def test_an_unreadable_schema_is_high(schema: object) -> None:
    assert judged("list_memos", schema=schema).level == "high"


@pytest.mark.parametrize("annotations", ["readOnlyHint", 1, ["readOnlyHint"]])
def test_unreadable_hints_are_high(annotations: object) -> None:
    risk = judged("list_memos", annotations=annotations, is_trusted=True)
    assert risk == Risk(level="high", reasons=(reasons.UNREADABLE_HINTS,))


def test_a_tool_that_the_code_stumbles_over_is_high() -> None:
    broken: Any = None
    risk = judged("list_memos", description=broken)
    assert risk == Risk(level="high", reasons=(reasons.NOT_ASSESSED,))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "$ref", "enum", "type", "anyOf", "action"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
names = st.text(max_size=30) | st.lists(
    st.sampled_from(["list", "delete", "and", "user", "memo", "get", "_", "создать", "删除"])
).map("_".join)


@given(names, st.text(max_size=60), json_values, json_values, st.booleans())
def test_whatever_a_service_says_gives_a_level_with_reasons(
    name: str, description: str, schema: object, annotations: object, is_trusted: bool
) -> None:
    risk = judged(
        name,
        description=description,
        schema=schema,
        annotations=annotations,
        is_trusted=is_trusted,
    )
    assert risk.level in LEVELS
    assert risk.reasons and all(risk.reasons)


hint_names = st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"])


@given(names, st.dictionaries(hint_names, st.booleans() | st.none() | st.text(max_size=3)))
def test_the_hints_of_a_service_that_nobody_trusts_never_lower(
    name: str, hints: dict[str, Any]
) -> None:
    without = LEVELS.index(judged(name).level)
    assert LEVELS.index(judged(name, annotations=hints).level) >= without


@given(names, st.text(max_size=80))
def test_a_description_never_lowers(name: str, description: str) -> None:
    without = LEVELS.index(judged(name).level)
    assert LEVELS.index(judged(name, description=description).level) >= without
