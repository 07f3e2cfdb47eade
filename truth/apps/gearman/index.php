<?php
// Labels of a plant, which others print by gearman, with one habit, given by the web server.

const LOOKS_AGAIN_US = 50_000;

$client = new GearmanClient();
$client->addServer('127.0.0.1', (int) $_SERVER['GEARMAND']);
$valve = 'valve ' . mt_rand(1, 20_000);

/** The page waits until the label is printed. */
function label(GearmanClient $client, string $valve): string
{
    return $client->doNormal('label', $valve) . "\n";
}

/** The label is a job in the background, and the page looks whether that is still known. */
function polled(GearmanClient $client, string $valve): string
{
    $job = $client->doBackground('label', $valve);
    do {
        usleep(LOOKS_AGAIN_US);
        [$known] = $client->jobStatus($job);
    } while ($known);
    return "a label for $valve is printed\n";
}

/** A page that is there at once; that it was seen is counted by somebody else. */
function seen(GearmanClient $client, string $valve): string
{
    $client->doBackground('visit', json_encode(['page' => $valve, 'at' => microtime(true)]));
    return "$valve is open\n";
}

echo match ($_SERVER['HABIT']) {
    'polled' => polled($client, $valve),
    'seen' => seen($client, $valve),
    default => label($client, $valve),
};
