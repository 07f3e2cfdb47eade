<?php
// Who does what is asked by gearman: worker.php GEARMAND_PORT READY PROCESSES. The printer takes 5 ms for a label.

const PRINTER_US = 5_000;

[, $port, $ready, $processes] = $argv;

function work(int $port): never
{
    $seen = 0;
    $worker = new GearmanWorker();
    $worker->addServer('127.0.0.1', $port);
    $worker->addFunction('label', function (GearmanJob $job): string {
        usleep(PRINTER_US);
        return 'a label for ' . $job->workload() . ' is printed';
    });
    $worker->addFunction('visit', function () use (&$seen): string {
        return (string) ++$seen;
    });
    while ($worker->work()) {
    }
    exit(1);
}

for ($n = 0; $n < $processes; $n++) {
    if (pcntl_fork() === 0) {
        work((int) $port);
    }
}
touch($ready);
pcntl_wait($status);
