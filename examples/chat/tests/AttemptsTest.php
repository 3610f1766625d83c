<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Attempts;
use Chat\Problem;

final class AttemptsTest extends DatabaseTestCase
{
    private Attempts $attempts;

    protected function setUp(): void
    {
        parent::setUp();
        $this->attempts = new Attempts($this->database);
    }

    public function testFailuresOfOneNameAreBounded(): void
    {
        $this->fail5('Mary');
        $problem = $this->refusal('mary', '10.0.0.1');
        self::assertSame(429, $problem->status);
        self::assertGreaterThan(50, $problem->retryAfterSeconds);
        self::assertNull($this->refusal('John', '10.0.0.1'), 'other names are not concerned');
        self::assertNull($this->refusal('Mary', '10.0.0.2'), 'nobody can lock Mary out from elsewhere');
    }

    public function testSuccessClearsTheCount(): void
    {
        for ($count = 0; $count < 20; ++$count) {
            self::assertNull($this->refusal('Mary', '10.0.0.1'));
            $this->attempts->signedIn('Mary', '10.0.0.1');
        }
    }

    public function testWindowEnds(): void
    {
        $this->fail5('Mary');
        $this->database->change('UPDATE attempts SET expires_ms = 1');
        self::assertNull($this->refusal('Mary', '10.0.0.1'));
    }

    public function testOneAddressCannotTryManyNames(): void
    {
        for ($count = 0; $count < Attempts::FAILURES_PER_ADDRESS_MAX; ++$count) {
            self::assertNull($this->refusal("name $count", '10.0.0.1'));
        }
        self::assertSame(429, $this->refusal('one more', '10.0.0.1')->status);
    }

    public function testRegistrationsPerAddressAreBounded(): void
    {
        for ($count = 0; $count < Attempts::REGISTRATIONS_PER_ADDRESS_MAX; ++$count) {
            $this->attempts->beforeRegistration('10.0.0.1');
        }
        $this->attempts->beforeRegistration('10.0.0.2');
        $this->expectException(Problem::class);
        $this->attempts->beforeRegistration('10.0.0.1');
    }

    private function fail5(string $name): void
    {
        for ($count = 0; $count < Attempts::FAILURES_PER_NAME_MAX; ++$count) {
            self::assertNull($this->refusal($name, '10.0.0.1'));
        }
    }

    private function refusal(string $name, string $address): ?Problem
    {
        try {
            $this->attempts->beforeSignIn($name, $address);
        } catch (Problem $problem) {
            return $problem;
        }

        return null;
    }
}
