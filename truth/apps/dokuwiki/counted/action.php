<?php

/** Says below every page how many pages the wiki has; counts them as $conf['truth_counts'] says: each time, or kept. */
class action_plugin_counted extends \dokuwiki\Extension\ActionPlugin
{
    public function register(Doku_Event_Handler $controller)
    {
        $controller->register_hook('TPL_CONTENT_DISPLAY', 'BEFORE', $this, 'tell');
    }

    public function tell(Doku_Event $event)
    {
        global $conf;
        $how = $conf['truth_counts'] ?? '';
        if ($how !== '') {
            $event->data .= '<p>' . ($how === 'each time' ? $this->pages() : $this->kept()) . ' pages</p>';
        }
    }

    private function pages(): int
    {
        global $conf;
        $found = [];
        search($found, $conf['datadir'], 'search_allpages', ['skipacl' => true]);
        return count($found);
    }

    private function kept(): int
    {
        $path = getCacheName('counted', '.pages');
        if (@filemtime($path) < time() - 3600) {
            io_saveFile($path, (string)$this->pages());
        }
        return (int)file_get_contents($path);
    }
}
