<?php

declare(strict_types=1);

namespace App\Controller;

use App\Notes;
use Fermata\{Channels, Hold};
use Fermata\Symfony\NativeResponse;
use Symfony\Component\HttpFoundation\{RedirectResponse, Request, Response};
use Twig\Environment;

final readonly class NotesController
{
    private const TEXT_MAX = 500;

    public function __construct(
        private Environment $twig,
        private Notes $notes,
        private Channels $channels,
    ) {}

    public function show(Request $request): Response
    {
        return new Response($this->twig->render('notes.html.twig', [
            'notes' => array_reverse($this->notes->all()),
            'name' => $request->getSession()->get('name', ''),
        ]));
    }

    public function add(Request $request): Response
    {
        $name = mb_substr(trim((string) $request->request->get('name')), 0, 40) ?: 'somebody';
        $text = mb_substr(trim((string) $request->request->get('text')), 0, self::TEXT_MAX);
        $request->getSession()->set('name', $name);
        if ($text !== '') {
            $this->notes->add($name, $text);
            $this->channels->publish('notes', ['by' => $name, 'text' => $text]);
        }
        return new RedirectResponse('/', 303);
    }

    /** Holds the client: it receives published events while the kernel serves other requests. */
    public function events(\Fermata\Request $request): NativeResponse
    {
        return new NativeResponse(Hold::sse('notes')->since($request->lastEventId()));
    }
}
