<?php

declare(strict_types=1);

namespace App\Events;

use Illuminate\Broadcasting\Channel;
use Illuminate\Contracts\Broadcasting\ShouldBroadcastNow;

final class NoteAdded implements ShouldBroadcastNow
{
    public function __construct(public string $by, public string $text) {}

    public function broadcastOn(): Channel
    {
        return new Channel('notes');
    }

    public function broadcastAs(): string
    {
        return 'note';
    }
}
