<?php

declare(strict_types=1);

use Fermata\{Channels, Hold};
use Fermata\Psr15\Body;
use Psr\Http\Message\{ResponseInterface, ServerRequestInterface};

$app = new Slim\App(['settings' => ['addContentLengthHeader' => false]]);
$channels = new Channels();
$file = (getenv('APP_VAR') ?: __DIR__) . '/notes.txt';

/** @return list<string> */
$notes = static fn(): array => is_file($file) ? file($file, FILE_IGNORE_NEW_LINES) : [];

$app->get('/', function (ServerRequestInterface $request, ResponseInterface $response) use ($notes): ResponseInterface {
    $items = array_map(static fn(string $note): string => '<li>' . htmlspecialchars($note) . '</li>', array_reverse($notes()));
    $response->getBody()->write(str_replace('{{ notes }}', implode("\n", $items), (string) file_get_contents(__DIR__ . '/notes.html')));
    return $response->withHeader('Content-Type', 'text/html; charset=utf-8');
});

$app->post('/notes', function (ServerRequestInterface $request, ResponseInterface $response) use ($file, $channels): ResponseInterface {
    $text = mb_substr(trim(preg_replace('/\s+/', ' ', (string) ($request->getParsedBody()['text'] ?? ''))), 0, 500);
    if ($text !== '') {
        file_put_contents($file, "$text\n", FILE_APPEND | LOCK_EX);
        $channels->publish('notes', $text);
    }
    return $response->withStatus(303)->withHeader('Location', '/');
});

// Holds the client: it receives published events while the application serves other requests.
$app->get('/events', fn(ServerRequestInterface $request, ResponseInterface $response): ResponseInterface => $response->withBody(
    Body::hold(Hold::sse('notes')->since($request->getAttribute(Fermata\Request::class)->lastEventId())),
));

return $app;
