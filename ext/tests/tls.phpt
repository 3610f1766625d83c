--TEST--
Tls: values, what is refused, and the server's settings from it
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Server, Tls, TlsVersion, ClientCertificate};

$tls = new Tls(['a.pem', 'b.pem'], ['a.key', 'b.key'], minVersion: TlsVersion::Tls13);
var_dump($tls->certificate === ['a.pem', 'b.pem'], $tls->clientCa, $tls->clientRequired, $tls->minVersion);
var_dump(Tls::development()->development, Tls::development()->certificate);

foreach ([
    fn () => new Tls([], 'a.key'),
    fn () => new Tls('a.pem', ['a.key', 7]),
    fn () => new Tls('a.pem', 'a.key', clientRequired: true),
    fn () => new Server(listen: []),
    fn () => new Server(listen: ['http://127.0.0.1:0', 'nonsense']),
    fn () => $tls->certificate = 'other',
    fn () => $tls->__construct('a', 'b'),
    fn () => new ClientCertificate(),
    fn () => (new Server(listen: 'https://127.0.0.1:0'))->run(),
    fn () => (new Server(listen: 'https://127.0.0.1:0', tls: new Tls(['a', 'b'], 'a.key')))->run(),
    fn () => (new Server(listen: 'https://127.0.0.1:0', tls: new Tls('/missing.pem', 'a.key')))->run(),
] as $try) {
    try {
        $try();
        echo "nothing\n";
    } catch (Throwable $error) {
        echo $error::class, ': ', $error->getMessage(), "\n";
    }
}
?>
--EXPECTF--
bool(true)
NULL
NULL
enum(Fermata\TlsVersion::Tls13)
bool(true)
NULL
TypeError: Fermata\Tls::__construct(): Argument #1 ($certificate) must be a string or a list of at least one string
TypeError: Fermata\Tls::__construct(): Argument #2 ($key) must be a string or a list of at least one string
Fermata\Exception\MisuseError: clientRequired needs clientCa: a PEM file with the authorities whose certificates are accepted
TypeError: Fermata\Server::__construct(): Argument #1 ($listen) must be a string or a list of at least one string
Fermata\Exception\ConfigurationException: %slisten%snonsense%s
Error: Cannot modify readonly property Fermata\Tls::$certificate
%s
Error: Call to private Fermata\ClientCertificate::__construct() from global scope
Fermata\Exception\ConfigurationException: listen is %s, but https needs a certificate; %s
Fermata\Exception\ConfigurationException: tls_certificate is 2 files, but tls_key is 1; %s
Fermata\Exception\ConfigurationException: tls_certificate: /missing.pem cannot be read: there is no such file
