--TEST--
Response: with*() return changed copies
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\Response;

$first = new Response(200, 'x', ['X-One' => '1']);
$second = $first->withHeader('x-one', '2')->withAddedHeader('X-One', '3')->withHeader('X-Two', '')->withStatus(418);
$third = $second->withHeader('X-ONE', '4')->withHeader('content-type', 'text/csv')->withAddedHeader('Content-Type', 'text/css');
foreach ([$first, $second, $third] as $response) {
    echo $response->status(), ' ', $response->body(), ' ', json_encode($response->headers(), JSON_UNESCAPED_SLASHES), "\n";
}
var_dump($second->header('X-One'), $third->header('CONTENT-type'), $third->header('x-two'), $third->header('none'));
var_dump(Response::accepted()->header('Content-Type'));
$copy = clone $second;
var_dump($copy->headers() === $second->headers(), $copy == $second);
?>
--EXPECT--
200 x {"Content-Type":["text/plain; charset=utf-8"],"X-One":["1"]}
418 x {"Content-Type":["text/plain; charset=utf-8"],"x-one":["2"],"X-One":["3"],"X-Two":[""]}
418 x {"Content-Type":["text/css"],"X-Two":[""],"X-ONE":["4"]}
string(4) "2, 3"
string(8) "text/css"
string(0) ""
NULL
NULL
bool(true)
bool(false)
