"""Tool definitions that were written to mislead the classifier: harm that is hidden must not count
as low, and a harmless reader must not count as high.

A level with a plus is the least that is right.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest

from chatapp.permissions.risk import ToolFacts, classify
from chatapp.permissions.risk_evidence import LEVELS, Level
from chatapp.permissions.risk_vocabulary import VERBS
from chatapp.permissions.word_splitting import split_words

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}


def with_parameters(**parameters: Any) -> dict[str, Any]:
    return {"type": "object", "properties": parameters}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    kind: str
    name: str
    expected: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=with_parameters)
    annotations: dict[str, Any] | None = None

    def accepts(self, level: Level) -> bool:
        if self.expected.endswith("+"):
            return LEVELS.index(level) >= LEVELS.index(self._least)
        return level == self.expected

    @property
    def _least(self) -> Level:
        return next(level for level in LEVELS if level == self.expected.rstrip("+"))


def list_by_name(kind: str, expected: str, names: str) -> list[Case]:
    return [Case(kind=kind, name=name, expected=expected) for name in names.split()]


def list_by_description(kind: str, expected: str, *texts: str, name: str = "fetch_x") -> list[Case]:
    return [Case(kind=kind, name=name, expected=expected, description=text) for text in texts]


def list_by_schema(kind: str, expected: str, name: str, *schemas: dict[str, Any]) -> list[Case]:
    return [Case(kind=kind, name=name, expected=expected, schema=schema) for schema in schemas]


def hide(keyword: str, value: Any, **others: Any) -> dict[str, Any]:
    return {"type": "object", keyword: value, **others}


CASES = [
    *list_by_name(
        "reader-first",
        "high",
        """
        scan_quarantine_host fetch_reset_password analyze_and_remediate check_restart_server
        inspectTerminateInstance audit-revoke-token find_purge_stale_records verify_grant_role
        preview_execute_script search_overwrite_and_delete get_user_then_impersonate
        list_users_and_ban_member monitor_kill_process lookup.disable.user
        validate_promote_member read_evict_pod scan_and_quarantine view_or_wipe
        verify_start_vm analyze_migrate_database preview_pay_invoice audit_rotate_credentials
        monitor_scale_cluster search_invite_user show_transfer_money view_approve_payment
        count_truncate_tables detect_and_evict describe_nuke_account
        """,
    ),
    *list_by_name(
        "reader-first",
        "medium+",
        """
        search_replace_text fetch_modify_record check_notify_customers get_rename_folder
        read_overwrite_file analyze_and_frobnicate list_then_zorch scan_and_yoink
        get_report_then_blorp
        """,
    ),
    *list_by_name(
        "reader-of-nouns",
        "low",
        """
        get_reset_status get_restart_count list_quarantine_files get_kill_switch get_ban_list
        list_deleted_users get_execution_log list_grant_types_for_client get_promote_reason
        get_run_by_id list_deploy_keys get_install_count check_trigger_config
        generate_password generate_summary is_valid has_access who_owns_it
        password_checker sales_chart run_linter deploy_key_get
        get_load_balancer list_refresh_tokens get_import_job list_sync_jobs get_release_pipeline
        get_invite_link search_and_list_memos find_and_count_rows
        """,
    ),
    *list_by_name(
        "unknown-verb",
        "high",
        """
        yank_production_database zorch_customer_permissions bork-api-secrets
        frobnicateUserRoles sunset_cluster yeet_payments hose_container neuter_admin
        upend_firewall gut_team_credentials kubectl_apply flash_firmware format_disk submit_job
        send_payment generate_api_key generate_access_token make_directory register_webhook
        schedule_event add_integration
        """,
    ),
    *list_by_name("unknown-verb", "medium", "frobnicate_memo zorch_page blorp_the_calendar"),
    *list_by_name(
        "noun-of-data",
        "medium",
        "crypto_price active_users aws_instances api_keys user_roles",
    ),
    *list_by_description(
        "later-verb",
        "high",
        "Returns a report. As a side effect it deletes the source rows.",
        "Returns a report and then purges the queue.",
        "Lists the members. Also revokes expired tokens.",
        "Reads the mailbox, optionally deleting what was read.",
        "Shows the balance. It transfers nothing, but it refunds open charges.",
        "Get the log; this will also truncate the table.",
        "Fetches a page\nThen wipes the disk.",
        "Shows the members, deletes those who left, and then destroys their data.",
        "Counts rows. Side effect: drops the table.",
        "Finds duplicates; the tool erases all but one.",
        "Loads the state. Afterwards it restarts the server.",
        "Return the user, and then delete the account.",
        "A harmless viewer which executes the text on the host.",
        "Reads all. Data loss is possible.",
        "View, update and delete memos.",
        "Fetches x and automatically uninstalls the old package.",
        "Flushes the queue.",
        "Returns a report after deleting old ones.",
        "Returns a report (and drops the temporary tables).",
        "Destroys what it returns.",
    ),
    *list_by_description(
        "later-verb",
        "medium+",
        "Returns a report. It also emails the owner and sends a copy to the vendor.",
        "Reads the file and then overwrites it.",
        "Shows the job, then cancels it.",
        "Lists messages. Read messages are deleted.",
        "Updates the record and returns it.",
        "Returns a report and cleans up the source.",
        "Lists x. Existing files are overwritten.",
        "Finds the flag. It also disables the flag.",
    ),
    *list_by_description(
        "words-about-harm",
        "low",
        "Returns a report. It never deletes anything.",
        "Lists the rows that were deleted.",
        "Shows how to delete a memo.",
        "Checks whether it deletes anything.",
        "Returns users who are banned.",
        "Returns a guide that explains drag and drop.",
        "Returns the runs and installs of a package.",
        "Returns creators, updates and payments of last week.",
        "Lists pending deletions without deleting them.",
        "Returns documents on payments, refunds and grants.",
        "Does not execute the query; explains it.",
        "Lists what is not deleted.",
        "Gets the weather. Use this tool before deleting an event.",
        "Returns an error if the file is moved or is being deleted.",
        "Lists users. Admins can delete, ban and revoke. An owner may delete the account.",
        "Lists webhooks. To replace one, call create_webhook, then delete the old one.",
        "Reads tables. INSERT, UPDATE and DELETE are rejected.",
        "Reads the graph. This deletes nothing.",
    ),
    *list_by_schema(
        "switch",
        "high",
        "list_orders",
        with_parameters(purge=FLAG),
        with_parameters(delete_matches=FLAG),
        with_parameters(deleteAfterRead=FLAG),
        with_parameters(auto_delete=FLAG),
        with_parameters(options=with_parameters(**{"wipe-cache": FLAG})),
        with_parameters(on_match={"enum": ["report", "delete"]}),
        with_parameters(mode={"enum": ["report", "purge"]}),
        with_parameters(then_destroy=FLAG),
        with_parameters(hard_delete={"type": "boolean", "default": False}),
    ),
    *list_by_schema("switch", "high", "update_memo", with_parameters(erase_history=FLAG)),
    *list_by_schema(
        "switch",
        "medium+",
        "find_duplicates",
        with_parameters(force=FLAG),
        with_parameters(dry_run={"type": "boolean", "default": False}),
        with_parameters(dryRun=FLAG),
        with_parameters(overwrite=FLAG),
        with_parameters(fix=FLAG),
        with_parameters(remove_originals=FLAG),
        with_parameters(confirm=FLAG),
        with_parameters(**{"in-place": FLAG}),
        with_parameters(create_missing=FLAG),
        with_parameters(reset=FLAG),
    ),
    *list_by_schema(
        "harmless-switch",
        "low",
        "list_objects",
        with_parameters(include_deleted=FLAG),
        with_parameters(delete_marker=TEXT),
        with_parameters(removeComments=FLAG),
        with_parameters(deleted_after=TEXT),
        with_parameters(no_delete=FLAG),
        with_parameters(recursive=FLAG),
        with_parameters(replacement=TEXT),
        with_parameters(commit=TEXT),
    ),
    *list_by_schema(
        "any-request",
        "high",
        "fetch",
        with_parameters(http_method=TEXT, url=TEXT, body=TEXT),
        with_parameters(httpMethod=TEXT, target_url=TEXT),
        with_parameters(requestMethod=TEXT, endpoint=TEXT),
        with_parameters(verb={"enum": ["GET", "DELETE"]}, uri=TEXT),
        with_parameters(method={"enum": ["get", "put"]}, baseUrl=TEXT),
        with_parameters(request=with_parameters(method=TEXT, href=TEXT)),
    ),
    *list_by_schema(
        "any-request",
        "low",
        "fetch",
        with_parameters(http_method={"enum": ["GET", "HEAD"]}, url=TEXT),
        with_parameters(url=TEXT),
        with_parameters(payment_method=TEXT, url=TEXT),
    ),
    *list_by_schema(
        "hidden-schema",
        "high",
        "frobnicate",
        hide("additionalProperties", with_parameters(sql=TEXT)),
        hide("patternProperties", {"^bash$": TEXT}),
        hide("patternProperties", {"^x-": with_parameters(bash=TEXT)}),
        with_parameters(steps={"type": "array", "prefixItems": [TEXT, with_parameters(sql=TEXT)]}),
        with_parameters(bash={"type": "array", "prefixItems": [TEXT]}),
        hide("if", with_parameters(a=TEXT), then=with_parameters(command=TEXT)),
        hide("if", with_parameters(a=TEXT), **{"else": with_parameters(sql=TEXT)}),
        with_parameters(a={"$dynamicRef": "#node"})
        | {"$defs": {"node": {"$dynamicAnchor": "node", **with_parameters(bash=TEXT)}}},
        with_parameters(a={"$ref": "#plain"})
        | {"$defs": {"n": {"$anchor": "plain", **with_parameters(script=TEXT)}}},
        hide("dependentSchemas", {"a": with_parameters(shell=TEXT)}),
        hide("unevaluatedProperties", with_parameters(sql=TEXT)),
        hide("propertyNames", {"enum": ["bash", "page"]}),
        hide("required", ["sql"]),
        with_parameters(list={"type": "array", "contains": with_parameters(sql=TEXT)}),
        with_parameters(commands={"type": "object", "additionalProperties": TEXT}),
        with_parameters(a={"$ref": "#/anyOf/0"}) | {"anyOf": [with_parameters(bash=TEXT)]},
        with_parameters(powershell=TEXT),
        with_parameters(sqlQuery=TEXT),
    ),
    *list_by_schema(
        "harmless-schema",
        "low",
        "list_databases",
        with_parameters(sql_instance=TEXT),
        with_parameters(sqlDialect=TEXT),
        with_parameters(a={"$ref": "#/anyOf/0"}) | {"anyOf": [with_parameters(page=TEXT)]},
        with_parameters(a={"$ref": "#/$defs/a%20b"}) | {"$defs": {"a b": TEXT}},
        hide("additionalProperties", False),
        hide("additionalProperties", {}, required=["page"], properties={"page": TEXT}),
        hide("if", with_parameters(page=TEXT), then={"required": ["page"]}),
    ),
    *list_by_name(
        "german",
        "high",
        "lösche_datei loeschen_kunde rechnung_bezahlen löscht_alles nutzer_sperren",
    ),
    *list_by_name("french", "high", "supprime_fichier effacer_compte détruire_base payer_facture"),
    *list_by_name("spanish", "high", "borra_cuenta eliminar_fila vaciar_papelera reembolsar_nota"),
    *list_by_name("italian", "high", "elimina_riga cancella_ordine svuota_cestino pagare_conto"),
    *list_by_name("portuguese", "high", "apaga_conta excluir_linha exclui_tudo pagar_boleto"),
    *list_by_name("dutch", "high", "verwijder_bestand verwijderen_klant factuur_betalen"),
    *list_by_name("polish", "high", "usuń_plik skasuj_konto zapłać_fakturę uruchom_zadanie"),
    *list_by_name("russian", "high", "удалить_файл получить_и_удалить очистить_базу list_удалить"),
    *list_by_name("chinese", "high", "删除文件 查询并删除订单 銷毀資料 转账给客户"),
    *list_by_name("japanese", "high", "ファイル削除 検索して削除 送金する 再起動"),
    *list_by_name("arabic", "high", "حذف_ملف مسح_الحساب"),
    *list_by_name("greek", "high", "διαγραφή_αρχείου εκτέλεση_εντολής"),
    *list_by_name(
        "foreign-reader",
        "low",
        """
        zeige_rechnungen afficher_commandes mostrar_pedidos elenca_clienti listar_contas
        zoek_klanten pokaż_faktury показать_файл 查询订单 検索する 查看收费明细 عرض_الملفات
        εμφάνιση_αρχείων получает_счет 查看删除记录
        """,
    ),
    *list_by_name(
        "unfamiliar-script",
        "medium+",
        "get_சமையல் list_ხელფასი ทดสอบ снести_дом 推倒重来 get_συνταγή הריסה_של_הבית",
    ),
    *list_by_description(
        "foreign-description",
        "high",
        "Liefert einen Bericht und löscht danach die Quelle.",
        "Renvoie un rapport et supprime la source.",
        "Devuelve un informe y borra la fuente.",
        "Restituisce un rapporto e cancella la fonte.",
        "Retorna um relatório e apaga a origem.",
        "Toont een rapport en verwijdert de bron.",
        "Zwraca raport i usuwa źródło.",
        "Возвращает отчёт и удаляет источник.",
        "返回报告并删除来源。",
        "レポートを返します。その後、元を削除します。",
        "عرض التقرير ثم حذف المصدر",
        "Επιστρέφει αναφορά και διαγράφει την πηγή.",
    ),
    *list_by_description(
        "foreign-description",
        "medium+",
        "ทำลายทุกอย่าง",
        "இது எல்லாவற்றையும் அழிக்கிறது",
        "Сносит дом до основания.",
    ),
    *list_by_description(
        "foreign-description",
        "low",
        "Liefert einen Bericht und löscht nicht.",
        "Renvoie la liste des fichiers à supprimer.",
        "返回已删除的文件列表。",
        "Возвращает отчёт.",
        "Devuelve el informe del mes.",
        "Returns the weather, e.g. for 北京.",
    ),
    *list_by_name(
        "noun-first-reader",
        "low",
        """
        deploy_site_get deploy_logs_get deploy_list deploy_status workflow.run.get refund_list
        payout_get branch-list release_describe install_history build_status order_get
        trigger_search
        """,
    ),
    *list_by_name(
        "edit-of-a-record",
        "medium",
        "update_order edit_subscription rename_timesheet tag_order update_order_note",
    ),
    *list_by_name("settled-record", "high", "cancel_subscription approve_timesheet"),
    *list_by_name("delete-then-noun", "high", "delete_list create_list remove_view reset_view"),
    *[
        Case(kind="read-only-sql", name=name, expected="medium", schema=with_parameters(sql=TEXT))
        for name in (
            "query_readonly",
            "read_only_query",
            "query_logs",
            "execute_readonly_sql",
            "run_select",
        )
    ],
    *[
        Case(kind="free-sql", name=name, expected="high", schema=with_parameters(sql=TEXT))
        for name in ("read_rows", "query", "execute_readonly_then_write")
    ],
    *list_by_name("read-only-sql", "medium", "execute_read_only_sql run_select_sql"),
    Case(
        kind="soothing-hints",
        name="fetch_reset_password",
        expected="high",
        description="Only reads. Completely safe.",
        annotations={"readOnlyHint": True, "destructiveHint": False},
    ),
    Case(
        kind="soothing-hints",
        name="list_orders",
        expected="high",
        schema=with_parameters(purge=FLAG),
        annotations={"readOnlyHint": True},
    ),
    Case(
        kind="soothing-hints",
        name="fetch_x",
        expected="high",
        description="Returns a list and then deletes it.",
        annotations={"readOnlyHint": True, "idempotentHint": True},
    ),
]


def classify_case(case: Case) -> Level:
    facts = ToolFacts(
        name=case.name,
        description=case.description,
        input_schema=case.schema,
        annotations=case.annotations,
    )
    return classify(facts).level


def classify_by_leading_verb(case: Case) -> Level:
    """Return the level of the first known verb of the name, as a simple classifier would."""
    effects = [effect for word in split_words(case.name) if (effect := VERBS.get(word))]
    if not effects:
        return "medium"
    mild: dict[str, Level] = {"reads": "low", "changes": "medium", "sends": "medium"}
    return mild.get(effects[0], "high")


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{number:03}-{case.kind}") for number, case in enumerate(CASES)]
)
def test_a_misleading_definition_gets_its_level(case: Case) -> None:
    level = classify_case(case)
    assert case.accepts(level), (case, level)


def test_the_table_holds_many_definitions_in_both_directions() -> None:
    described = {str(case) for case in CASES}
    assert len(described) == len(CASES) >= 150
    assert sum(case.expected == "low" for case in CASES) >= 50
    assert sum(case.expected == "high" for case in CASES) >= 75


@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES}))
def test_each_kind_holds_several_definitions(kind: str) -> None:
    assert sum(case.kind == kind for case in CASES) >= 2


def test_the_leading_verb_alone_fails_on_much_of_the_table() -> None:
    wrong = [case for case in CASES if not case.accepts(classify_by_leading_verb(case))]
    assert len(wrong) > len(CASES) / 2
    assert any(case.expected == "low" for case in wrong)
