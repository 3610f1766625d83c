--TEST--
Response: a header name or value cannot break out of its line
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Hold, Response};

$response = Response::accepted();
foreach (["a\r\nB: c", "a\nb", "a\rb", "a\0b", "a\x7f"] as $value) {
    thrown(fn() => $response->withHeader('X-Test', $value));
}
foreach (['', 'a b', 'a:', "a\r\n", "a\0", 'ä'] as $name) {
    thrown(fn() => $response->withAddedHeader($name, 'x'));
}
thrown(fn() => new Response(200, '', ['X-Test' => ['fine', "not\nfine"]]));
thrown(fn() => Response::redirect("/\r\nSet-Cookie: a=b"));
thrown(fn() => Hold::sse('a')->withHeader('X-Test', "a\nb"));
thrown(fn() => $response->withHeader('X-Test', "tab\tand \u{fc}"));
?>
--EXPECTREGEX--
(Fermata\\Exception\\MisuseError: the value of header "X-Test" has a line break or another control character\n){5}(Fermata\\Exception\\MisuseError: a header name must be a token: letters, digits and !#\$%&'\*\+-\.\^_`\|~\n){6}Fermata\\Exception\\MisuseError: the value of header "X-Test" has a line break or another control character\nFermata\\Exception\\MisuseError: the value of header "Location" has a line break or another control character\nFermata\\Exception\\MisuseError: the value of header "X-Test" has a line break or another control character\nnothing thrown
