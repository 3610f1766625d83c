--TEST--
A fatal error in another handler does not lose what is being written, and open_basedir bounds files
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$folder = sys_get_temp_dir() . '/fermata-file-' . bin2hex(random_bytes(6));
mkdir($folder);
foreach (FILE_IO as $io) {
    $server = new TestServer(<<<'PHP'
        use Fermata\File;
        use Fermata\File\WriteMode;
        $server->get('/write', function () {
            $large = str_repeat('0123456789abcdef', 1 << 16);
            echo "writes\n";
            File::write(getenv('FOLDER') . '/large', $large, WriteMode::Atomic, sync: true);
            return Response::text('written');
        });
        $server->get('/fatal', fn () => eval('class Twice {} class Twice {}'));
        $server->get('/outside', function () {
            $out = '';
            foreach ([fn () => File::read('/etc/hostname'), fn () => File::temporary('/var/tmp'), fn () => File::copy(getenv('FOLDER') . '/large', '/var/tmp/x')] as $work) {
                try { $work(); $out .= "nothing thrown\n"; } catch (Fermata\Exception\AccessDeniedException $e) { $out .= "{$e->getMessage()} | $e->path\n"; }
            }
            return Response::text($out);
        });
        PHP, ini: ["-dopen_basedir=$folder:" . sys_get_temp_dir()], environment: ['FERMATA_FILE_IO' => $io, 'FERMATA_FILE_INLINE_BYTES_MAX' => '0', 'FOLDER' => $folder, 'VALGRIND_OPTS' => '--leak-check=no']);
    echo $server->get('/outside')->body;
    $writing = $server->connect();
    $writing->start('GET', '/write');
    while (!str_contains($server->output(), 'writes')) {
        usleep(500);
    }
    echo $server->get('/fatal')->status, "\n";
    $server->stop();
    echo filesize("$folder/large"), ' ', implode(' ', array_diff(scandir($folder), ['.', '..'])), "\n";
    unlink("$folder/large");
    clearstatcache();
}
rmdir($folder);
?>
--EXPECT--
open_basedir does not allow /etc/hostname | /etc/hostname
open_basedir does not allow /var/tmp | /var/tmp
open_basedir does not allow /var/tmp/x | /var/tmp/x
500
1048576 large
open_basedir does not allow /etc/hostname | /etc/hostname
open_basedir does not allow /var/tmp | /var/tmp
open_basedir does not allow /var/tmp/x | /var/tmp/x
500
1048576 large
