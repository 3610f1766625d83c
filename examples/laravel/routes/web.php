<?php

declare(strict_types=1);

use App\Events\NoteAdded;
use Fermata\Hold;
use Fermata\Symfony\NativeResponse;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Route;

Route::get('/', static fn() => view('notes', [
    'notes' => array_reverse(array_map(static fn(string $line): array => json_decode($line, true), @file(storage_path('notes.txt')) ?: [])),
    'name' => session('name', ''),
]));

Route::post('/notes', static function (Request $request) {
    $note = ['by' => mb_substr($request->input('name', 'somebody'), 0, 40), 'text' => mb_substr($request->input('text', ''), 0, 500)];
    $request->session()->put('name', $note['by']);
    file_put_contents(storage_path('notes.txt'), json_encode($note) . "\n", FILE_APPEND | LOCK_EX);
    event(new NoteAdded($note['by'], $note['text']));
    return redirect('/', 303);
});

// Holds the client: it receives broadcasts while the application serves other requests.
Route::get('/events', static fn(Fermata\Request $request) => new NativeResponse(Hold::sse('notes')->since($request->lastEventId())));
