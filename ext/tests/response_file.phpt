--TEST--
Response::file() checks its arguments and names downloads
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\Response;
use Fermata\Exception\MisuseError;

$file = Response::file('/does/not/matter');
var_dump($file->status(), $file->body(), $file->headers());
var_dump(Response::file('a', download: 'naïve "x".txt')->header('Content-Disposition'));
var_dump(Response::file('a', contentType: 'text/x-a')->withStatus(404)->headers());

foreach ([
    fn() => Response::file(''),
    fn() => Response::file('a', root: ''),
    fn() => Response::file('/a', root: '/tmp'),
    fn() => Response::file('a', download: ''),
    fn() => Response::file('a', contentType: "a\nb"),
    fn() => Response::file("a\0b"),
] as $wrong) {
    try {
        $wrong();
        echo "accepted\n";
    } catch (MisuseError|ValueError $error) {
        echo $error::class, ': ', $error->getMessage(), "\n";
    }
}
?>
--EXPECTF--
int(200)
string(0) ""
array(0) {
}
string(79) "attachment; filename="na_ve _x_.txt"; filename*=UTF-8''na%C3%AFve%20%22x%22.txt"
array(1) {
  ["Content-Type"]=>
  array(1) {
    [0]=>
    string(8) "text/x-a"
  }
}
Fermata\Exception\MisuseError: the path of a file must not be empty
Fermata\Exception\MisuseError: the path of a file must not be empty
Fermata\Exception\MisuseError: with a root the path of a file is relative to it and does not start with /
Fermata\Exception\MisuseError: the name of a download must not be empty; leave it out to show the file in the browser
Fermata\Exception\MisuseError: %s
ValueError: Fermata\Response::file(): Argument #1 ($path) must not contain any null bytes
