<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Clock;
use Chat\Database;
use Chat\Message;
use Chat\Messages;
use Chat\User;

final class MessagesTest extends DatabaseTestCase
{
    private Messages $messages;
    private User $mary;
    private User $john;
    private User $eve;
    private int $keys = 0;

    protected function setUp(): void
    {
        parent::setUp();
        $this->messages = new Messages($this->database);
        [$this->mary, $this->john, $this->eve] = [$this->user('Mary'), $this->user('John'), $this->user('Eve')];
    }

    public function testMessageComesBackAsItWas(): void
    {
        $before = Clock::unixMs();
        $sent = $this->send($this->john, $this->mary, "<script>\n\u{1f3bc}", offline: true);
        $read = $this->messages->after($this->mary, 0)[0];
        self::assertEquals($sent->toArray(), $read->toArray());
        self::assertSame(["<script>\n\u{1f3bc}", true, 'John', 'Mary'], [$read->text, $read->offline, $read->from->name, $read->to->name]);
        self::assertGreaterThanOrEqual($before, $read->timeMs);
    }

    public function testSameKeyIsStoredOnce(): void
    {
        $first = $this->messages->add($this->john, null, 'hello', 'key-of-john', false);
        $again = $this->messages->add($this->john, $this->mary, 'other', 'key-of-john', true);
        $mary = $this->messages->add($this->mary, null, 'hello', 'key-of-john', false);
        self::assertEquals($first, $again);
        self::assertNotSame($first->id, $mary->id);
        self::assertCount(2, $this->messages->after($this->eve, 0));
    }

    public function testPrivateMessagesAreReadByTheTwoOnly(): void
    {
        $this->send($this->john, null, 'all');
        $this->send($this->john, $this->mary, 'to mary');
        $this->send($this->mary, $this->john, 'to john');
        $this->send($this->mary, $this->mary, 'note');
        self::assertSame(['all', 'to mary', 'to john', 'note'], self::texts($this->messages->after($this->mary, 0)));
        self::assertSame(['all', 'to mary', 'to john'], self::texts($this->messages->after($this->john, 0)));
        self::assertSame(['all'], self::texts($this->messages->after($this->eve, 0)));
        self::assertSame(['all'], self::texts($this->messages->before($this->eve, null)[0]));
    }

    public function testPagesReachEverythingOnceInOrder(): void
    {
        $count = 2 * Messages::PAGE_MAX + 50;
        $this->database->writeMessages(function () use ($count): void {
            for ($number = 0; $number < $count; ++$number) {
                $to = [null, $this->john->id, $this->eve->id][$number % 3];
                $this->database->change(
                    'INSERT INTO messages (sender_id, recipient_id, text, key, created_ms) VALUES (?, ?, ?, ?, 0)',
                    [$this->mary->id, $to, (string) $number, "key-$number"],
                );
            }
        });
        $expected = array_values(array_filter(range(0, $count - 1), static fn (int $number): bool => $number % 3 !== 2));

        $forward = [];
        for ($id = 0, $more = true; $more;) {
            $page = $this->messages->after($this->john, $id);
            $more = count($page) > Messages::PAGE_MAX;
            $page = array_slice($page, 0, Messages::PAGE_MAX);
            $forward = [...$forward, ...$page];
            $id = end($page)->id;
        }
        self::assertSame($expected, array_map('intval', self::texts($forward)));

        $backward = [];
        for ($id = null, $more = true; $more;) {
            [$page, $more] = $this->messages->before($this->john, $id);
            self::assertLessThanOrEqual(Messages::PAGE_MAX, count($page));
            $backward = [...$page, ...$backward];
            $id = $page[0]->id;
        }
        self::assertSame($expected, array_map('intval', self::texts($backward)));
    }

    public function testMissedArePrivateUnseenAndOlder(): void
    {
        $seen = $this->send($this->john, $this->mary, 'seen');
        $this->send($this->john, $this->mary, 'missed');
        $this->send($this->john, null, 'public');
        $this->send($this->mary, $this->john, 'sent');
        $first = $this->send($this->john, $this->mary, 'on the first page');
        $mary = new User($this->mary->id, 'Mary', $seen->id);
        self::assertSame(['missed'], self::texts($this->messages->missed($mary, $first->id)));
        self::assertSame([], $this->messages->missed($mary, $seen->id));
    }

    public function testPreviousIsPerChannel(): void
    {
        $public = $this->send($this->john, null, '1');
        $toMary = $this->send($this->john, $this->mary, '2');
        $toJohn = $this->send($this->eve, $this->john, '3');
        $last = $this->send($this->mary, null, '4');
        $next = $this->send($this->mary, $this->john, '5');
        self::assertSame(0, $this->messages->previousPublic($public->id));
        self::assertSame($public->id, $this->messages->previousPublic($last->id));
        self::assertSame(0, $this->messages->previousPrivate($this->john, $toMary->id));
        self::assertSame($toJohn->id, $this->messages->previousPrivate($this->john, $next->id));
        self::assertSame($toMary->id, $this->messages->previousPrivate($this->mary, $next->id));
    }

    public function testSurvivesARestart(): void
    {
        $this->send($this->john, $this->mary, 'are you there?', offline: true);
        $this->database->close();
        $reopened = new Database($this->location());
        $reopened->create();
        self::assertSame(['are you there?'], self::texts((new Messages($reopened))->after($this->mary, 0)));
        $reopened->close();
    }

    public function testFailedWriteLeavesNothingAndBlocksNobody(): void
    {
        try {
            $this->database->writeMessages(function (): never {
                $this->database->change(
                    'INSERT INTO messages (sender_id, text, key, created_ms) VALUES (?, ?, ?, 0)',
                    [$this->mary->id, 'lost', 'key-lost'],
                );
                throw new \LogicException('stop');
            });
        } catch (\LogicException) {
        }
        $this->send($this->john, null, 'next');
        self::assertSame(['next'], self::texts($this->messages->after($this->mary, 0)));
    }

    public function testOldMessagesArePruned(): void
    {
        $this->database->change(
            'INSERT INTO messages (sender_id, recipient_id, text, key, created_ms) VALUES (?, ?, ?, ?, ?), (?, ?, ?, ?, ?)',
            [$this->mary->id, $this->john->id, 'old', 'key-old', 0, $this->mary->id, null, 'old', 'key-public', 0],
        );
        $this->advanceIdsTo(Messages::PUBLIC_KEPT + 999);
        $this->send($this->john, null, 'the one that prunes');
        self::assertSame(['the one that prunes'], self::texts($this->messages->after($this->john, 0)));
    }

    private function advanceIdsTo(int $id): void
    {
        $this->database->change($this->database->isPostgres()
            ? "SELECT setval(pg_get_serial_sequence('messages', 'id'), $id)"
            : "UPDATE sqlite_sequence SET seq = $id WHERE name = 'messages'");
    }

    private function send(User $from, ?User $to, string $text, bool $offline = false): Message
    {
        return $this->messages->add($from, $to, $text, 'test-key-' . ++$this->keys, $offline);
    }

    /**
     * @param list<Message> $messages
     * @return list<string>
     */
    private static function texts(array $messages): array
    {
        return array_map(static fn (Message $message): string => $message->text, $messages);
    }
}
