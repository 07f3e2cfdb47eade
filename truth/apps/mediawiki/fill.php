<?php
// Fills a new MediaWiki: a page with a table that a template makes, and many pages whose links lead to pages that nobody wrote yet.
use MediaWiki\MediaWikiServices;

require_once getenv('MW_INSTALL_PATH') . '/maintenance/Maintenance.php';

class Fill extends Maintenance {
    const ROWS = 150, PAGES = 3000, LINKS = 12, WANTED = 900;

    public function execute() {
        $this->write('Template:Valve', "|-\n| [[Valve {{{1}}}]] || '''{{{2|open}}}'''");
        $rows = array_map(fn ($n) => '{{Valve|' . $n . '|' . ($n % 3 ? 'open' : 'shut') . "}}\n", range(1, self::ROWS));
        $this->write('Main Page', "{|\n! Valve !! State\n" . implode('', $rows) . "|}\n");
        $database = $this->getDB(DB_PRIMARY);
        $database->query('insert into page (page_namespace, page_title, page_random, page_touched, page_latest, page_len)
            select 0, concat("Pump_", seq), rand(), "20240101000000", 1, 100 from seq_1_to_' . self::PAGES, __METHOD__);
        $database->query('insert into pagelinks (pl_from, pl_namespace, pl_title, pl_from_namespace)
            select page_id, 0, concat("Wanted_", (page_id * 7 + seq * 31) % ' . self::WANTED . '), 0
            from page join seq_1_to_' . self::LINKS . ' where page_title like "Pump%"', __METHOD__);
        $database->query('analyze table page, pagelinks', __METHOD__);
    }

    private function write($title, $text) {
        $page = MediaWikiServices::getInstance()->getWikiPageFactory()->newFromTitle(Title::newFromText($title));
        $page->doUserEditContent(new WikitextContent($text), User::newSystemUser('Truth', ['steal' => true]), 'filled');
    }
}

$maintClass = Fill::class;
require_once RUN_MAINTENANCE_IF_MAIN;
