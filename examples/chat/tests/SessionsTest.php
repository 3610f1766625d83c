<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Sessions;

final class SessionsTest extends DatabaseTestCase
{
    private Sessions $sessions;

    protected function setUp(): void
    {
        parent::setUp();
        $this->sessions = new Sessions($this->database);
    }

    public function testTokenLeadsToTheUserUntilTheSessionEnds(): void
    {
        $mary = $this->user('Mary');
        $session = $this->sessions->start($mary);
        $found = $this->sessions->find($session->token);
        self::assertSame([$mary->id, $session->id], [$found->user->id, $found->id]);
        $this->sessions->end($found);
        self::assertNull($this->sessions->find($session->token));
    }

    public function testOnlyTheHashOfTheTokenIsStored(): void
    {
        $session = $this->sessions->start($this->user('Mary'));
        self::assertMatchesRegularExpression('/^[0-9a-f]{64}$/', $session->token);
        self::assertStringNotContainsString($session->token, json_encode($this->database->rows('SELECT * FROM sessions')));
    }

    public function testExpiredSessionIsGone(): void
    {
        $mary = $this->user('Mary');
        $session = $this->sessions->start($mary);
        $this->database->change('UPDATE sessions SET expires_ms = 1');
        self::assertNull($this->sessions->find($session->token));
        $this->sessions->start($mary);
        self::assertCount(1, $this->database->rows('SELECT * FROM sessions'));
    }

    public function testOldestSessionsMakeRoom(): void
    {
        $mary = $this->user('Mary');
        $john = $this->sessions->start($this->user('John'));
        $first = $this->sessions->start($mary);
        $this->database->change('UPDATE sessions SET created_ms = 1 WHERE user_id = ?', [$mary->id]);
        for ($count = 0; $count < Sessions::PER_USER_MAX; ++$count) {
            $last = $this->sessions->start($mary);
        }
        self::assertNull($this->sessions->find($first->token));
        self::assertNotNull($this->sessions->find($last->token));
        self::assertNotNull($this->sessions->find($john->token));
    }

    public function testNonsenseIsNobody(): void
    {
        foreach ([null, '', 'x', str_repeat('g', 64), str_repeat('a', 64)] as $token) {
            self::assertNull($this->sessions->find($token));
        }
    }

    public function testCsrfTokenBelongsToOneSession(): void
    {
        $mary = $this->user('Mary');
        $one = $this->sessions->start($mary);
        $other = $this->sessions->start($mary);
        self::assertTrue($one->isCsrfToken($this->sessions->find($one->token)->csrfToken()));
        self::assertFalse($one->isCsrfToken($other->csrfToken()));
        self::assertFalse($one->isCsrfToken(null));
        self::assertFalse($one->isCsrfToken(''));
    }
}
