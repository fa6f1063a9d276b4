"""The words by which a tool's name is judged: verbs by their effect, nouns by what is affected.

Data only. Words are lower case and without accents, as `word_splitting.split_words` returns them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

Effect = Literal[
    "reads",
    "changes",
    "sends",
    "controls",
    "removes",
    "creates",
    "operates",
    "deletes",
    "runs",
    "access",
    "money",
]
EFFECTS: tuple[Effect, ...] = get_args(Effect)  # from the mildest to the gravest


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _build_table(text: dict[Effect, str]) -> Mapping[str, Effect]:
    return MappingProxyType(
        {word: effect for effect, words in text.items() for word in words.split()}
    )


# Verbs, at any position in a name.
VERBS = _build_table(
    {
        "reads": """
            get gets list lists read reads search find fetch show describe lookup retrieve browse
            inspect explain think analyze analyse check validate verify count compare diff estimate
            calculate compute measure preview view summarize summarise query detect scan
            extract parse suggest recommend identify discover explore examine predict
            forecast enumerate poll wait watch monitor trace traverse scrape crawl screenshot lint
            grep glob stat download render visualize visualise geocode ping probe diagnose debug
            profile peek collect infer locate rank encode decode audit whoami look see introspect
            generate simulate tail
            ask research reason snapshot ls cat blame reflog ocr transcribe translate hash tokenize
            embed observe troubleshoot assert expect echo rerank geolocate regeocode geo sum
            multiply divide solve roll ps hget hgetall mget lrange zrange smembers""",
        "changes": """
            update edit set modify change write save store add append prepend insert put patch
            replace rename move archive unarchive restore assign unassign reassign upload
            attach detach merge split mark unmark pin unpin star unstar follow unfollow subscribe
            unsubscribe close reopen uncomplete unresolve lock unlock link unlink untag
            categorize recategorize reorder reprioritize prioritize reschedule snooze format
            apply highlight customize adjust align resize rotate transform convert configure
            register unregister push commit stage unstage revert undo redo upsert increment
            decrement bump accept decline approve reject dismiss acknowledge publish unpublish
            upvote downvote unlike favorite unfavorite persist remember reindex normalize annotate
            complete finalize
            click tap press type fill hover drag swipe scroll launch navigate goto join leave mute
            unmute block unblock connect disconnect load unload mount unmount overwrite rewrite
            manage transfer ignore login logout allocate release
            resolve select crop sort make sign swap""",
        "sends": "send reply forward notify broadcast tweet react respond submit dispatch compose",
        "controls": """
            start stop pause resume unpause enable disable activate deactivate toggle cancel abort
            suspend unsuspend terminate shutdown switch sync refresh rebuild""",
        "removes": "remove clear clean cleanup withdraw unset",
        "creates": """
            create new clone copy import fork duplicate provision scaffold bootstrap initialize
            instantiate
            spawn mint""",
        "deletes": """
            delete destroy drop purge erase wipe truncate uninstall teardown kill reset prune flush
            trash rm rmdir del hdel deprovision expunge decommission shred nuke""",
        "runs": """
            execute exec run eval evaluate upgrade downgrade drain cordon evict scale rebase
            deploy redeploy undeploy restart reboot rerun rollback migrate
            install failover trigger""",
        "access": """
            grant revoke invite uninvite ban unban kick promote demote impersonate authorize
            deauthorize protect unprotect""",
        "money": "pay refund purchase buy sell payout",
    }
)

# Verbs of other languages; stems and endings are listed as they occur in names.
FOREIGN_VERBS = _build_table(
    {
        "reads": """
            listar consultar buscar obter ver ler pesquisar mostrar contar comparar verificar
            sugerir projetar obtener leer encontrar calcular validar analizar
            lister chercher rechercher obtenir lire afficher trouver compter verifier
            auflisten suchen lesen anzeigen abrufen holen finden zeigen prufen
            cercare leggere elencare mostrare trovare ottenere
            получить список наити показать прочитать поиск""",
        "changes": """
            atualizar alterar editar adicionar salvar mover renomear registrar arquivar
            recategorizar
            actualizar modificar agregar anadir guardar renombrar cerrar cambiar fechar
            modifier ajouter enregistrer deplacer renommer mettre fermer
            aktualisieren andern bearbeiten hinzufugen speichern verschieben umbenennen setzen
            aggiornare modificare aggiungere salvare spostare rinominare
            обновить изменить добавить сохранить переместить""",
        "sends": "enviar mandar envoyer senden schicken inviare отправить",
        "removes": "remover quitar retirer entfernen rimuovere",
        "creates": """
            criar crear creer anlegen erstellen creare создать cadastrar gerar generar""",
        "deletes": """
            excluir apagar deletar eliminar borrar supprimer effacer loschen eliminare cancellare
            удалить""",
        "runs": "executar ejecutar executer ausfuhren eseguire выполнить",
        "money": "pagar payer bezahlen pagare transferir baixar reembolsar comprar",
    }
)

# Stems of scripts without spaces; they match inside a word.
FOREIGN_STEMS = _build_table(
    {
        "reads": """
            查询 查看 获取 搜索 列出 统计 汇总 检查 读取 排行 字典 清单 列表 详情 信息 日志 状态
            分析 报告 预测 计算 取得 検索 一覧 表示 詳細 履歴 計算 조회 검색 목록 상세 분석 계산""",
        "changes": "更新 修改 添加 编辑 设置 保存 移动 追加 変更 編集 수정 추가 변경",
        "sends": "发送 送信 전송",
        "removes": "移除 清除 清空",
        "creates": "新增 创建 新建 建立 生成 作成 생성",
        "deletes": "删除 刪除 销毁 削除 삭제",
        "runs": "执行 运行 部署 重启 実行 실행",
        "money": "支付 付款 转账 退款 收费 支払 결제",
    }
)

# Words that are nouns as often as verbs. They count if the name has no verb, and not before a word
# that reports.
AMBIGUOUS = _build_table(
    {
        "reads": "test plan filter",
        "changes": "tag label comment record bookmark open log track fix schedule rate vote book",
        "sends": "post message email mail dm request call dial",
        "creates": "draft build",
        "runs": "command shell terminal script invoke bash",
        "access": "share",
        "money": "order charge checkout trade",
    }
)

# Nouns of tools that have no verb in their name and only report.
REPORTS = word_set("""
    status history report reports summary info information detail details statistics stats count
    weather forecast distance direction directions docs documentation doc help version versions
    schema overview analytics metrics health logs balance catalog catalogue time
    metadata top log contents content results result insights usage capabilities trends ranking
    rankings
    location locations elevation altitude route routes routing bicycling walking driving transit
    isochrone matrix coordinates tile tiles tilequery practices instructions guide guides guidelines
    tutorial tutorials example examples reference references faq tips readme license changelog
    size sizes indexes indices comparison conversion calculation validation verification inspection
    analysis diagnosis diagnostics estimation lookup detection extraction prediction tree dictionary
    glossary definition definitions synonyms quote quotes rates news articles papers timezone
    timezones timeline agenda availability freebusy quota limits dimensions messages replies
    requests
    relatorio relatorios reporte rapport bericht resumen resumo
    """)

# Verbs that affect a person or a thing only for the person who acts, so the noun after them is not
# affected.
SOCIAL_VERBS = word_set("""
    assign unassign reassign follow unfollow mute unmute block unblock subscribe unsubscribe mark
    unmark pin unpin star unstar tag untag ignore snooze favorite unfavorite
    click tap press type fill hover drag swipe scroll navigate select
    """)

ACCESS_NOUNS = word_set("""
    user users member members role roles permission permissions access acl policy policies token
    tokens secret secrets credential credentials password passwords admin admins administrator
    administrators owner owners collaborator collaborators firewall certificate certificates sso
    key keys public
    mfa oauth scope scopes privilege privileges invitation invitations guest guests vpn port
    security threat
    """)

OPERATIONS_NOUNS = word_set("""
    pipeline pipelines deployment deployments cluster clusters server servers instance instances vm
    vms machine machines container containers pod pods workflow workflows service services
    application applications migration migrations production release database databases job jobs
    environment domain dns stack function functions daemon router network gateway branch
    replica replicas droplet volume volumes processor processors
    """)

MONEY_NOUNS = word_set("""
    payment payments payout payouts refund refunds transaction transactions subscription
    subscriptions billing bank order orders price prices charge charges money funds wallet
    leverage margin payroll timesheet timesheets
    """)

# Nouns of things in use that count only for verbs that stop or restore; editing one is an edit.
SOFT_OPERATIONS = word_set("project projects pull")

# Nouns of things that `add` and `post` create; other nouns are added to something that exists.
WHOLE_THINGS = word_set("""
    page wiki document doc project board list issue ticket task event contact account channel folder
    repository webhook workflow category calendar group database collection table request
    """)

# Reading verbs that are nouns as often; the last word of the name may be the verb.
NOUN_LIKE_READERS = word_set("""
    list view watch monitor query scan audit profile trace diff count download compare debug
    screenshot probe stat look reads lists
    """)

# Verbs that are nouns at the end of a reading tool's name: an employee's leave, a release.
NOUN_LIKE_ENDINGS = word_set("leave release format type sort set lock load sign merge crop swap")

# Words that are always verbs, also after a reading verb.
UNMISTAKABLE = word_set("create delete destroy purge erase wipe remove uninstall")

# Nouns that `resolve` looks up; it settles all others.
LOOKED_UP = word_set("id ids url uri path address name username host dns reference ref library")

# Nouns that `convert` only computes; it rewrites all others.
COMPUTED = word_set("""
    time times timezone timezones date dates currency currencies unit units temperature coordinate
    coordinates color colour number numbers measurement
    """)

# Records of events; running a query over them only reads.
OBSERVATIONS = word_set("""
    log logs insights insight metric metrics promql logql traceql prometheus loki cwl trace traces
    span spans telemetry analytics
    """)

# Small things: creating one is a message, and removing one loses little.
LIGHT_MADE = word_set("""
    comment comments reply replies reaction reactions message mention range ranges cell cells row
    rows clipboard
    """)
LIGHT_REMOVED = word_set("""
    label labels tag tags reaction reactions assignee assignees favorite favorites favourite star
    bookmark reminder emoji vote watcher watchers filter formatting highlight
    flag flags dependency cache
    """)

# Words that stand for free code; querying one is not a search.
CODE_NOUNS = word_set("sql cypher shell bash powershell javascript python graphql")

# Words that contain a verb of the base table without its meaning.
HARMLESS_FORMS = word_set("""
    deleted deletable created creator creators creation recreation creative sender senders sendable
    written rewritten writer writers writable typewriter overwritten
    """)

# A name with one of these words names two tools; the graver effect counts.
CONNECTORS = word_set("and or then und oder et ou y")
