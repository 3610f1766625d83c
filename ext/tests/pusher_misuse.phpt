--TEST--
Pusher and Mercure: values that cannot work are refused where they are given, and paths that are taken
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Mercure, Pusher, Request, Response, Server};
use Fermata\Mercure\Algorithm;
use Fermata\Pusher\{Webhook, WebhookEvent};

$secret = '0123456789abcdef';
$server = new Server();
$pusher = new Pusher('1', 'key', $secret, authorize: fn(Request $request, string $channel) => true);
var_dump($server->pusher($pusher) === $server, $pusher->appId, $pusher->key);
// The secret is not shown.
var_dump(str_contains(print_r($pusher, true), $secret));
thrown(fn() => $pusher->__construct('1', 'key', $secret));
thrown(fn() => clone $pusher);
thrown(fn() => new Pusher('1', 'key', $secret, authorize: fn(int $a) => true));
thrown(fn() => new Pusher('1', 'key', $secret, webhooks: ['https://example.com']));
thrown(fn() => new Pusher('1', 'key', $secret, allowedOrigins: [7]));
thrown(fn() => new Webhook('https://example.com', ['channel_occupied']));
thrown(fn() => $server->pusher(new Pusher('a/b', 'key', $secret)));
thrown(fn() => $server->pusher(new Pusher('2', 'other', '')));
thrown(fn() => $server->pusher(new Pusher('2', 'other', $secret, connectionsMax: -1)));
thrown(fn() => $server->pusher(new Pusher('2', 'other', $secret), '/ws'));
$server->mercure(new Mercure(publisherKey: $secret, publisherAlgorithm: Algorithm::HS512));
thrown(fn() => $server->mercure(new Mercure()));
thrown(fn() => (new Server())->mercure(new Mercure(publisherKey: 'no PEM', publisherAlgorithm: Algorithm::RS256)));
thrown(fn() => new Mercure(corsOrigins: [1]));
thrown(fn() => mercure_publish('news', 'nobody runs'));
thrown(fn() => mercure_publish([], 'no topic'));

/** Prints the error of a server that does not start. */
$started = function (callable $with): void {
    $server = new Server(listen: 'http://127.0.0.1:0', workers: 1);
    $with($server);
    thrown(fn() => $server->run());
};
$application = fn(string $id, ?string $prefix) => new Pusher($id, "key$id", '0123456789abcdef', sharedPrefix: $prefix);
$started(fn(Server $it) => $it->pusher($application('1', '')));
$started(fn(Server $it) => $it->pusher($application('1', 'pusher:2:')));
$started(fn(Server $it) => $it->pusher($application('1', 'live.'))->pusher($application('2', 'live.more.')));
$started(fn(Server $it) => $it->pusher($application('1', null))->pusher($application('1', null)));
$started(fn(Server $it) => $it->mercure(new Mercure()));
$started(fn(Server $it) => $it->mercure(new Mercure(anonymous: true, sharedPrefix: 'mercure:x')));
$started(fn(Server $it) => $it->get('/app/{id}', fn() => Response::text(''))->pusher($application('1', null)));
$started(fn(Server $it) => $it->pusher(new Pusher('1', 'key', '0123456789abcdef', webhooks: [new Webhook('nowhere', [WebhookEvent::CacheMiss])])));
$started(fn(Server $it) => $it->pusher(new Pusher('1', 'key', '0123456789abcdef', eventDataBytesMax: 100000)));
?>
--EXPECT--
bool(true)
string(1) "1"
string(3) "key"
bool(false)
Fermata\Exception\MisuseError: the object is already constructed; create a new one
Error: Trying to clone an uncloneable object of class Fermata\Pusher
Fermata\Exception\MisuseError: authorize is called with Fermata\Request and a string, which its parameter $a cannot be given
Fermata\Exception\MisuseError: webhooks are a list of Fermata\Pusher\Webhook; string is none
TypeError: Fermata\Pusher::__construct(): Argument #9 ($allowedOrigins) must be a string or a list of at least one string
Fermata\Exception\MisuseError: events of a webhook are a list of Fermata\Pusher\WebhookEvent; string is none
Fermata\Exception\ConfigurationException: Fermata\Pusher: the application's id "a/b" has to be 1 to 64 letters, digits, '-', '_' or '.': it is part of a path
Fermata\Exception\ConfigurationException: Fermata\Pusher: the secret of the application "2" is empty; give it one of at least 16 characters
Fermata\Exception\ConfigurationException: Fermata\Pusher: invalid value: integer `-1`, expected u64
Fermata\Exception\ConfigurationException: Fermata\Pusher: path: another application has ""; use one path for all
Fermata\Exception\ConfigurationException: Fermata\Mercure: Mercure is already enabled: a server has one hub
Fermata\Exception\ConfigurationException: Fermata\Mercure: mercure.publisher: the key is not the public key in PEM that RS256 needs
TypeError: Fermata\Mercure::__construct(): Argument #10 ($corsOrigins) must be a string or a list of at least one string
Fermata\Exception\MisuseError: mercure_publish() belongs to a running server; elsewhere publish over HTTP, by Symfony\Component\Mercure\Hub
TypeError: mercure_publish(): Argument #1 ($topics) must be a string or a list of at least one string
Fermata\Exception\ConfigurationException: shared_prefix "": any client could subscribe to every channel of the application; use a prefix such as "live."
Fermata\Exception\ConfigurationException: shared_prefix "pusher:2:": it is reserved for the hub; use a prefix such as "live."
Fermata\Exception\ConfigurationException: shared_prefix "live.more.": it overlaps the prefix of another application; use a prefix such as "live."
Fermata\Exception\ConfigurationException: two applications have the id "1" or its key; use distinct ones
Fermata\Exception\ConfigurationException: Mercure: no client could subscribe: set MERCURE_SUBSCRIBER_JWT_KEY, or subscriber_key in [mercure], or let clients without a token in by anonymous
Fermata\Exception\ConfigurationException: shared_prefix "mercure:x": it is reserved for the hub; use a prefix such as "live."
Fermata\Exception\ConfigurationException: there already is a handler for GET /app/{key}; remove one of the two
Fermata\Exception\ConfigurationException: webhook: its url cannot be used: it begins neither with http:// nor with https://; give http://HOST/PATH or https://HOST/PATH
Fermata\Exception\ConfigurationException: event_bytes_max (Limits eventBytes) is 65536, and events of Pusher and Mercure need 104096; raise it, or lower eventDataBytesMax of Fermata\Pusher
