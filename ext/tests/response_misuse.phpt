--TEST--
Response: statuses and argument types are checked
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\Response;

thrown(fn() => new Response(199));
thrown(fn() => Response::json([], 600));
thrown(fn() => Response::text('', 0));
thrown(fn() => Response::accepted()->withStatus(-1));
thrown(fn() => Response::redirect('/', 200));
thrown(fn() => Response::redirect(''));
thrown(fn() => new Response(200, '', ['text/plain']));
thrown(fn() => new Response(200, '', ['A' => 1]));
thrown(fn() => new Response(200, '', ['A' => ['b', null]]));
thrown(fn() => new Response(code: 200));
thrown(fn() => Response::accepted()->__construct(200));
?>
--EXPECT--
Fermata\Exception\MisuseError: the status must be 200 to 599, not 199
Fermata\Exception\MisuseError: the status must be 200 to 599, not 600
Fermata\Exception\MisuseError: the status must be 200 to 599, not 0
Fermata\Exception\MisuseError: the status must be 200 to 599, not -1
Fermata\Exception\MisuseError: the status of a redirect must be 300 to 399, not 200
Fermata\Exception\MisuseError: a redirect needs a location
TypeError: Fermata\Response::__construct(): Argument #3 ($headers) must have header names as keys
TypeError: Fermata\Response::__construct(): Argument #3 ($headers) must hold a string or a list of strings for "A", int given
TypeError: Fermata\Response::__construct(): Argument #3 ($headers) must hold a string or a list of strings for "A", null given
Error: Unknown named parameter $code
Fermata\Exception\MisuseError: the object is already constructed; create a new one
