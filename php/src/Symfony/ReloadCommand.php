<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Internal\Reload;
use Symfony\Bundle\FrameworkBundle\Console\Application;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\OutputInterface;
use Symfony\Component\HttpKernel\KernelInterface;

/** Restarts the server of fermata:serve with new code: bin/console fermata:reload */
final class ReloadCommand extends Command
{
    protected static $defaultName = 'fermata:reload';
    protected static $defaultDescription = 'Starts the server anew, with new code';

    /** Returns the path of the file that names the running server of the application's environment. */
    public static function file(KernelInterface $kernel): string
    {
        return $kernel->getLogDir() . "/fermata-{$kernel->getEnvironment()}.pid";
    }

    protected function configure(): void
    {
        $this->setName('fermata:reload')
            ->setDescription('Starts the server of fermata:serve anew, with new code; its requests are finished first');
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        $application = $this->getApplication();
        $pid = $application instanceof Application ? Reload::ask(self::file($application->getKernel())) : null;
        if ($pid === null) {
            $output->writeln('<error>No server of fermata:serve runs here that can be reloaded</error>');
            return Command::FAILURE;
        }
        $output->writeln("The server $pid finishes its requests and restarts");
        return Command::SUCCESS;
    }
}
