--TEST--
Response::withCookie(): the line, and what it refuses
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Response, SameSite};

$response = Response::accepted()
    ->withCookie('a', 'b c;ü')
    ->withCookie('b', '', maxAge: -5, path: '/x', domain: 'example.org', secure: true, httpOnly: false, sameSite: SameSite::None)
    ->withCookie('__Host-c', '1', 3600, secure: true, sameSite: SameSite::Strict)
    ->withCookie('d', '1', secure: true, sameSite: SameSite::None, partitioned: true);
echo implode("\n", $response->headers()['Set-Cookie']), "\n";

thrown(fn() => $response->withCookie('', 'x'));
thrown(fn() => $response->withCookie('a b', 'x'));
thrown(fn() => $response->withCookie("a\r\n", 'x'));
thrown(fn() => $response->withCookie('a', 'x', path: '/; Secure'));
thrown(fn() => $response->withCookie('a', 'x', domain: "a\nb"));
thrown(fn() => $response->withCookie('a', 'x', sameSite: SameSite::None));
thrown(fn() => $response->withCookie('a', 'x', partitioned: true));
thrown(fn() => $response->withCookie('__Host-a', 'x'));
thrown(fn() => $response->withCookie('__secure-a', 'x'));
thrown(fn() => $response->withCookie('__Host-a', 'x', secure: true, domain: 'example.org'));
thrown(fn() => $response->withCookie('__Host-a', 'x', secure: true, path: '/x'));
?>
--EXPECT--
a=b%20c%3B%C3%BC; Path=/; HttpOnly; SameSite=Lax
b=; Max-Age=0; Path=/x; Domain=example.org; Secure; SameSite=None
__Host-c=1; Max-Age=3600; Path=/; Secure; HttpOnly; SameSite=Strict
d=1; Path=/; Secure; HttpOnly; SameSite=None; Partitioned
Fermata\Exception\MisuseError: a cookie name must be a token: letters, digits and !#$%&'*+-.^_`|~
Fermata\Exception\MisuseError: a cookie name must be a token: letters, digits and !#$%&'*+-.^_`|~
Fermata\Exception\MisuseError: a cookie name must be a token: letters, digits and !#$%&'*+-.^_`|~
Fermata\Exception\MisuseError: the path of a cookie must be printable ASCII without ";" and ","
Fermata\Exception\MisuseError: the domain of a cookie must be printable ASCII without ";" and ","
Fermata\Exception\MisuseError: browsers drop a SameSite::None cookie that is not secure; pass secure: true
Fermata\Exception\MisuseError: browsers drop a partitioned cookie that is not secure; pass secure: true
Fermata\Exception\MisuseError: browsers drop the cookie __Host-a unless it is secure; pass secure: true
Fermata\Exception\MisuseError: browsers drop the cookie __secure-a unless it is secure; pass secure: true
Fermata\Exception\MisuseError: browsers drop the cookie __Host-a unless its path is / and it has no domain
Fermata\Exception\MisuseError: browsers drop the cookie __Host-a unless its path is / and it has no domain
