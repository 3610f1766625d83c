<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Problem;
use Chat\Users;

final class UsersTest extends DatabaseTestCase
{
    private Users $users;

    protected function setUp(): void
    {
        parent::setUp();
        $this->users = new Users($this->database);
    }

    public function testRegisteredUserSignsInWithTheRightPasswordOnly(): void
    {
        $mary = $this->users->register('Mary', 'correct horse');
        self::assertSame($mary->id, $this->users->withPassword('mary', 'correct horse')->id);
        self::assertSame('Mary', $this->users->withPassword('MARY', 'correct horse')->name);
        foreach ([['Mary', 'Correct horse'], ['Mary', ''], ['Nobody', 'correct horse']] as [$name, $password]) {
            try {
                $this->users->withPassword($name, $password);
                self::fail('A wrong password should be refused.');
            } catch (Problem $problem) {
                self::assertSame([401, 'wrong_password'], [$problem->status, $problem->reason]);
            }
        }
    }

    public function testPasswordIsStoredHashed(): void
    {
        $this->users->register('Mary', 'correct horse');
        $hash = $this->database->row('SELECT password_hash FROM users')['password_hash'];
        self::assertStringStartsWith('$2y$10$', $hash);
    }

    public function testNameIsGivenOnce(): void
    {
        $this->users->register('Mary', 'correct horse');
        $this->expectExceptionObject(Problem::nameTaken());
        $this->users->register('mary', 'another password');
    }

    public function testFindTakesWordsLiterally(): void
    {
        foreach (['Mary', 'Rosemary', '100%', 'a_b', 'axb', 'back\\slash'] as $name) {
            $this->user($name);
        }
        $names = fn (string $words): array => array_map(static fn ($user) => $user->name, $this->users->find($words));
        self::assertSame(['Mary', 'Rosemary'], $names('MAR'));
        self::assertSame(['100%'], $names('%'));
        self::assertSame(['a_b'], $names('_'));
        self::assertSame(['back\\slash'], $names('\\'));
        self::assertSame([], $names('nobody'));
        self::assertCount(6, $names(''));
    }

    public function testSeenNeverGoesBack(): void
    {
        $mary = $this->user('Mary');
        $this->users->seen($mary, 7);
        $this->users->seen($mary, 5);
        self::assertSame(7, $this->users->named('mary')->seenId);
    }
}
