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
            multiply divide solve roll ps hget hgetall mget lrange zrange smembers
            assess classify score sample gather investigate study survey interpret inquire consult
            benchmark dump head whois nslookup traceroute fingerprint paraphrase deduce""",
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
            resolve select crop sort make sign swap
            play amend revise adapt correct repair rewire mutate anonymize redact encrypt
            decrypt compress compact relabel recolor retry requeue enqueue""",
        "sends": "send reply forward notify broadcast tweet react respond submit dispatch compose",
        "controls": """
            start stop pause resume unpause enable disable activate deactivate toggle cancel abort
            suspend unsuspend terminate shutdown switch sync refresh rebuild halt freeze unfreeze
            detonate disarm arm recreate""",
        "removes": "remove clear clean cleanup withdraw unset discard strip dispose dismantle",
        "creates": """
            create new clone copy import fork duplicate provision scaffold bootstrap initialize
            instantiate
            spawn mint setup init establish mkdir cp""",
        "deletes": """
            delete destroy drop purge erase wipe truncate uninstall teardown kill reset prune flush
            trash rm rmdir del hdel deprovision expunge decommission shred nuke
            obliterate eradicate annihilate demolish incinerate scrub zap deallocate
            rmtree rmrf unprovision""",
        "runs": """
            execute exec run eval evaluate upgrade downgrade drain cordon evict scale rebase
            deploy redeploy undeploy restart reboot rerun rollback migrate
            install failover trigger
            quarantine remediate reimage reprovision autoscale relaunch respawn sudo reinstall
            """,
        "access": """
            grant revoke invite uninvite ban unban kick promote demote impersonate authorize
            deauthorize protect unprotect entitle elevate escalate delegate enroll unenroll onboard
            offboard blacklist whitelist blocklist allowlist expel chmod chown
            rekey""",
        "money": """
            pay refund purchase buy sell payout reimburse disburse remit donate
            liquidate redeem stake unstake invest debit""",
    }
)

# Verbs of other languages, in the forms that names and descriptions use: the infinitive, the
# imperative and the third person. Without accents; German umlauts also as "ae", "oe", "ue".
FOREIGN_VERBS = _build_table(
    {
        "reads": """
            listar consultar buscar obter ver ler pesquisar mostrar contar comparar verificar
            sugerir projetar obtener leer encontrar calcular validar analizar
            lista consulta busca muestra obtiene devuelve lee mostra obtem exibir exibe retorna
            lister chercher rechercher obtenir lire afficher trouver compter verifier
            liste cherche affiche renvoie recherche consulter
            auflisten suchen lesen anzeigen abrufen holen finden zeigen prufen pruefen listet
            liest zeigt sucht liefert hole zeige suche lies
            cercare leggere elencare mostrare trovare ottenere elenca cerca legge restituisce
            ophalen zoeken tonen lezen bekijken toon zoek haal lees opvragen
            pobierz pokaz wyswietl szukaj wyszukaj znajdz czytaj odczytaj listuj sprawdz zwraca
            hamta visa listor getir listele goster tampilkan
            получить список наити показать прочитать поиск получает возвращает показывает читает
            ανακτηση αναζητηση εμφανιση λιστα προβολη αναγνωση βρες δειξε""",
        "changes": """
            atualizar alterar editar adicionar salvar mover renomear registrar arquivar
            recategorizar atualiza altera adiciona
            actualizar modificar agregar anadir guardar renombrar cerrar cambiar fechar
            actualiza modifica cambia anade
            modifier ajouter enregistrer deplacer renommer mettre fermer modifie ajoute
            aktualisieren andern aendern bearbeiten hinzufugen hinzufuegen speichern verschieben
            umbenennen setzen aktualisiert andert aendert speichert
            aggiornare modificare aggiungere salvare spostare rinominare aggiorna aggiungi
            bijwerken wijzigen toevoegen opslaan verplaatsen hernoemen wijzig
            zmien zaktualizuj dodaj zapisz przenies edytuj aktualizuje zmienia
            обновить изменить добавить сохранить переместить обновляет изменяет
            ενημερωση αλλαγη προσθηκη αποθηκευση""",
        "sends": """
            enviar mandar envoyer senden schicken inviare отправить envia envoie sendet invia
            verzenden versturen verstuur wyslij wysyla отправляет αποστολη""",
        "removes": """
            remover quitar retirer entfernen rimuovere quita retire entfernt rimuovi rimuove
            убрать αφαιρεση""",
        "creates": """
            criar crear creer anlegen erstellen creare создать cadastrar gerar generar
            erstelle erstellt crea cree cria aanmaken maak utworz stworz tworzy создает
            δημιουργια""",
        "deletes": """
            excluir apagar deletar eliminar borrar supprimer effacer loschen eliminare cancellare
            elimina borra exclui apaga vaciar vacia destruir destruye
            supprime efface detruire detruit vider vide
            loeschen losche loesche loscht loescht vernichten vernichtet leeren leere leert
            cancella svuota svuotare distruggere distrugge
            verwijderen verwijder verwijdert wissen wist vernietigen
            usun usuwa usunac skasuj kasuje kasuj wyczysc zniszcz
            radera hapus smazat odstranit
            удалить удаляет удали стереть стирает очистить очищает уничтожить уничтожает
            διαγραφη διεγραψε διαγραφει""",
        "runs": """
            executar ejecutar executer ausfuhren eseguire выполнить
            executa ejecuta ausfuehren neustarten esegui esegue reiniciar redemarrer
            riavviare uitvoeren herstarten uruchom wykonaj desplegar deployer
            выполняет запустить запускает перезапустить развернуть εκτελεση επανεκκινηση""",
        "access": """
            conceder otorgar revocar revogar accorder revoquer autoriser gewahren gewaehren
            entziehen sperren einladen convidar invitar concedere revocare verlenen intrekken
            nadaj odbierz zapros назначить отозвать заблокировать пригласить""",
        "money": """
            pagar payer bezahlen pagare transferir baixar reembolsar comprar
            paga paie bezahlt uberweisen ueberweisen uberweist ueberweist rembourser rembourse
            virer acheter kaufen acquistare rimborsare betalen betaal overmaken terugbetalen
            zaplac przelej kup kupic zwroc оплатить перевести купить вернуть πληρωμη""",
    }
)

# Stems of scripts without spaces; they match inside a word.
FOREIGN_STEMS = _build_table(
    {
        "reads": """
            查询 查看 获取 搜索 列出 统计 汇总 检查 读取 排行 字典 清单 列表 详情 信息 日志 状态
            分析 报告 预测 计算 取得 検索 一覧 表示 詳細 履歴 計算 조회 검색 목록 상세 분석 계산
            查詢 查找 返回 显示 顯示 獲取 搜尋 列舉 下载 浏览 比较 验证 推荐 解析 天气 明细
            確認 参照 閲覧 返す 返します 확인 보기 반환
            بحث عرض قراءة جلب استعلام قايمة""",
        "changes": """
            更新 修改 添加 编辑 设置 保存 移动 追加 変更 編集 수정 추가 변경 編輯 設定 업데이트
            تحديث تعديل اضافة حفظ""",
        "sends": "发送 送信 전송 發送 导出 導出 ارسال",
        "removes": "移除 清除 清空 取り除 제거 ازالة",
        "creates": "新增 创建 新建 建立 生成 作成 생성 創建 انشاء",
        "deletes": "删除 刪除 销毁 銷毀 抹除 削除 消去 破棄 삭제 파기 حذف مسح",
        "runs": "执行 运行 部署 重启 執行 重啟 実行 再起動 실행 재시작 배포 تنفيذ تشغيل",
        "access": "授权 撤销权限 授予 禁用用户 招待 권한부여 권한회수 منح الغاء",
        "money": "支付 付款 转账 退款 收费 轉帳 支払 送金 返金 결제 송금 환불 دفع تحويل",
    }
)

# Words that are nouns as often as verbs. They count if the name has no verb, and not before a word
# that reports.
AMBIGUOUS = _build_table(
    {
        "reads": "test plan filter group match review recall",
        "changes": """
            tag label comment record bookmark open log track fix schedule rate vote book batch
            pull""",
        "sends": "post message email mail dm request call dial export",
        "creates": "draft build",
        "runs": "command shell terminal script invoke bash",
        "access": "share",
        "money": "order charge checkout trade bid tip wire",
    }
)

# First words of names that are questions: `is_valid`.
QUESTION_WORDS = word_set("""
    is has can does who what which where when how exists contains
    """)

# Nouns at the end of a word of those scripts that begins with a reading verb and only reads.
REPORT_STEMS = (
    *(
        "明细",
        "列表",
        "详情",
        "信息",
        "日志",
        "状态",
        "统计",
        "记录",
        "历史",
        "一覧",
        "詳細",
        "履歴",
    ),
    *("목록", "상세"),
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
    nearby latest recent current upcoming trending popular related suggestions recommendations
    alternatives similar profile profiles sitemap feed feeds headlines comments transcript
    transcripts subtitles captions leaderboard standings scores sentiment
    vulnerabilities advisories alerts incidents topology inventory
    indicators similarity quality chart charts neighbors neighbours geolocation symbols
    healthcheck activities dashboard velocity
    finder checker viewer reader searcher explorer analyzer analyser calculator validator inspector
    scanner detector estimator parser extractor summarizer translator linter
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
    kubectl kubernetes terraform docker firmware disk disks partition partitions filesystem
    """)

MONEY_NOUNS = word_set("""
    payment payments payout payouts refund refunds transaction transactions
    billing bank price prices charge charges money funds wallet leverage margin payroll
    """)

# Records about money. Editing one moves nothing; settling one does.
MONEY_RECORDS = word_set("""
    subscription subscriptions order orders timesheet timesheets invoice invoices
    """)
EDITING_VERBS = word_set("""
    update edit modify change set add append insert patch rename tag mark manage annotate format
    move sort assign attach split archive unarchive revert
    """)

# Nouns of things in use that count only for verbs that stop or restore; editing one is an edit.
SOFT_OPERATIONS = word_set("project projects pull")

# Nouns of things that `add` and `post` create; other nouns are added to something that exists.
WHOLE_THINGS = word_set("""
    page wiki document doc project board list issue ticket task event contact account channel folder
    repository webhook workflow category calendar group database collection table request
    directory customer product site domain integration environment dashboard monitor meeting
    """)

# Reading verbs that are nouns as often; the last word of the name may be the verb.
NOUN_LIKE_READERS = word_set("""
    list view watch monitor query scan audit profile trace diff count download compare debug
    screenshot probe stat look reads lists
    """)

# Verbs that are nouns at the end of a reading tool's name: an employee's leave, a release.
NOUN_LIKE_ENDINGS = word_set("leave release format type sort set lock load sign merge crop swap")

# Words that are always verbs, also after a reading verb.
UNMISTAKABLE = word_set("""
    create delete destroy purge erase wipe remove uninstall truncate obliterate eradicate expunge
    shred nuke deprovision decommission rmdir revoke deauthorize impersonate terminate remediate
    """)

# Verbs after a reading verb if an object follows that is no report: `fetch_reset_password` resets,
# `get_reset_status` reads.
VERBS_BEFORE_OBJECTS = word_set("""
    reset restart reboot quarantine disable deactivate suspend execute exec evict drain rollback
    redeploy undeploy teardown demolish kill drop flush prune trash discard sudo reimage reinstall
    grant authorize promote demote elevate escalate ban unban uninvite offboard
    overwrite rewrite replace modify rename upsert reassign unassign unsubscribe
    disconnect shutdown halt notify broadcast reimburse disburse liquidate
    """)

# Verbs that are part of a noun after a reading verb: `get_load_balancer`, `get_refresh_token`.
NOUN_LIKE_PARTS = word_set("""
    release load link lock refresh like follow block sync import sign set store mark test log
    format type sort swap crop stake register
    """)
# Verbs that ask for a thing by its name, so that a verb after them is more likely a noun.
NAMING_READERS = word_set("get list count show describe view")

# Leading verbs that are nouns as often. The name reads if it ends in a plain reading verb or in a
# report: `deploy_logs_get`, `deploy_status`.
NOUN_LIKE_ACTIONS = word_set("""
    deploy install release run trigger migrate failover build upgrade rollback invite ban payout
    refund trade order charge schedule commit merge branch fork clone draft restart manage
    """)
ENDING_READERS = word_set("get list describe fetch retrieve show read search find lookup view")
ENDING_REPORTS = word_set("""
    status history log logs info details summary stats statistics metrics
    """)

# Words that make a noun of the verb before them: `get_run_by_id`, `get_kill_switch`.
NOUN_TAILS = word_set("""
    by for of from in on at to with as per via id ids url link name date code type state flag
    target targets config settings policy plan rate reason reasons switch request list count
    ids urls names dates codes types states flags policies plans
    """)

# First words of names without a verb. Any other first word may be a verb that is not known, as in
# `yank_production_database`.
NOT_VERBS = word_set("""
    api app apps web cloud local remote global default custom public private internal external
    my all any active inactive open closed pending new old available supported team project
    company organization organisation org customer client employee vendor supplier tenant site
    github gitlab bitbucket jira slack stripe shopify aws azure gcp google k kube kubernetes docker
    redis postgres mysql mongo mongodb sqlite cloudflare git npm linux windows
    total monthly daily weekly yearly next previous first last max min sample
    """)

# Actions beside a list of what they act on: what a switch of a tool may set off.
DELETING_SWITCHES = word_set("""
    delete purge destroy erase wipe truncate uninstall nuke shred expunge kill
    """)
CHANGING_SWITCHES = word_set("""
    force overwrite clobber cascade apply fix autofix write persist reset cleanup confirm confirmed
    dryrun
    """)
SWITCH_OPENERS = word_set("auto force hard also then and should do permanently")

# Verbs that a description uses of harmless things as well: "delegates to the index", "runs weekly".
LOOSE_VERBS = word_set("""
    run eval evaluate trigger scale kick protect authorize delegate promote escalate elevate enroll
    rebase drain
    """)
# Grave verbs whose third person is a plural as often: "payments and grants".
NOUN_LIKE_GRAVE = word_set("grant kill reboot purchase upgrade kick pay buy wire")

# Verbs that raise a tool which reads, wherever its description states them.
SAID_CHANGES = word_set("""
    update modify write overwrite send upload publish move rename disable enable stop cancel create
    remove clear clean empty replace insert notify email forward
    """)

# Nouns that `generate` issues to somebody; it only computes all others, such as a password.
ISSUED = word_set(
    "token tokens key keys secret secrets credential credentials certificate invitation"
)

# Nouns that `resolve` looks up; it settles all others.
LOOKED_UP = word_set("id ids url uri path address name username host dns reference ref library")

# Nouns that `convert` only computes; it rewrites all others.
COMPUTED = word_set("""
    time times timezone timezones date dates currency currencies unit units temperature coordinate
    coordinates color colour number numbers measurement
    """)

# Records of events and findings; what runs over them only reads.
OBSERVATIONS = word_set("""
    log logs insights insight metric metrics promql logql traceql prometheus loki cwl trace traces
    span spans telemetry analytics lint linter
    diagnostics
    """)

# Nouns of things that are run to learn something. "query" is not among them: a query may be in any
# language.
QUESTIONS = OBSERVATIONS | word_set("""
    search research report check audit scan analysis
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
CONNECTORS = word_set("and or then und oder et ou y oraz и και")
