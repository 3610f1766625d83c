--TEST--
Hook::Files: plain files are as without hooks, whether they are cached or not; others go on meanwhile
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$calls = <<<'PHP'
<?php
set_error_handler(function ($number, $message) { echo "[$message]\n"; return true; });
umask(022);
$big = str_repeat('0123456789abcdef', 65536) . 'end';
var_dump(file_put_contents('a', "one\ntwo\n\nlast"), file_get_contents('a'), file_get_contents('a', false, null, 4, 3), file('a'));
var_dump(file_put_contents('a', 'more', FILE_APPEND | LOCK_EX), filesize('a'), is_file('a'), is_dir('a'), file_exists('nowhere'));
var_dump(file_put_contents('big', $big), md5_file('big') === md5($big), sha1_file('big') === sha1($big), hash_file('crc32b', 'big') === hash('crc32b', $big), file_get_contents('big') === $big);
var_dump(copy('big', 'big2'), filesize('big2'), file_get_contents('big2') === $big, readfile('a'), unlink('big2'), unlink('big2'));
var_dump(rename('a', 'b'), rename('a', 'b'), file_get_contents('a'), fopen('a', 'r'), fopen('.', 'w'), file_get_contents('.'), filesize('a'));
var_dump(mkdir('d', 0750), mkdir('d'), decoct(fileperms('d')), is_dir('d'), rmdir('d'), rmdir('d'), rmdir('b'), mkdir('x/y'), mkdir('x/y', 0777, true), rmdir('x/y'), rmdir('x'));
var_dump(symlink('b', 'l'), symlink('b', 'l'), readlink('l'), readlink('b'), is_link('l'), filetype('l'), lstat('l')['size'], stat('l')['size'], link('b', 'h'), stat('h')['nlink'], unlink('h'), unlink('l'), filetype('b'));
$f = fopen('c', 'x+');
var_dump(fopen('c', 'x'), fwrite($f, "line one\nline two\n"), ftell($f), rewind($f), fgets($f), fread($f, 4), fseek($f, 0, SEEK_END), feof($f), fgets($f), feof($f), fgetc($f));
var_dump(ftruncate($f, 4), fstat($f)['size'], fsync($f), fdatasync($f), fflush($f), flock($f, LOCK_EX), flock($f, LOCK_UN), rewind($f), stream_get_contents($f), fputcsv($f, ['x', 'y z']), rewind($f), fgetcsv($f), fclose($f));
$f = fopen('c', 'a+');
var_dump(fwrite($f, 'end'), ftell($f), rewind($f), fread($f, 100), fwrite($f, '!'), fclose($f), file_get_contents('c'));
$f = fopen('c', 'r');
var_dump(fwrite($f, 'x'), ftruncate($f, 0), fpassthru($f), fclose($f), touch('c', 1000), filemtime('c'), is_readable('c'), is_writable('c'), is_executable('c'));
$f = fopen('c', 'c');
var_dump(fread($f, 1), fwrite($f, ''), fwrite($f, 'XY'), fclose($f), file_get_contents('c'), file_put_contents('/dev/full', 'x'), file_get_contents('/dev/null'), file_get_contents("a\0b"[0]));
var_dump(error_log("a line\n", 3, 'log'), file_get_contents('log'), fscanf($f = fopen('log', 'r'), '%s %s'), fclose($f), copy('nowhere', 'a'), copy('log', 'x/y'));
foreach (glob('*') as $name) { if (!str_ends_with($name, '.php')) { @unlink($name); } }
PHP;

function run(array $settings, bool $hooked, string $calls): string
{
    $server = new TestServer(<<<'PHP'
    if (getenv('HOOKED')) { Fermata\Runtime::hook(Fermata\Hook::Files); }
    $server->get('/run', function () {
        mkdir('work');
        chdir('work');
        ob_start();
        include dirname(getcwd()) . '/calls.php';
        restore_error_handler();
        chdir('..');
        rmdir('work');
        return Response::text(ob_get_clean());
    });
    PHP, environment: $settings + ($hooked ? ['HOOKED' => '1'] : []));
    file_put_contents($server->folder() . '/calls.php', $calls);
    $body = $server->get('/run')->body;
    $code = $server->stop();
    return preg_replace('/(resource\(|Resource id #)\d+/', '$1', $body) . $code . $server->logged('/error/');
}

$plain = run([], false, $calls);
foreach (FILE_IO as $io) {
    foreach (['262144', '0'] as $inline) {
        $hooked = run(['FERMATA_FILE_IO' => $io, 'FERMATA_FILE_INLINE_BYTES_MAX' => $inline], true, $calls);
        echo $hooked === $plain ? "same\n" : "$io, $inline bytes at once, WITHOUT\n$plain\nWITH\n$hooked\n";
    }
}
echo strlen($plain) > 2000 ? 'compared' : $plain, "\n";
?>
--EXPECT--
same
same
same
same
compared
