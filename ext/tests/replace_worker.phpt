--TEST--
Runtime::replaceWorker() throws outside of a worker
--EXTENSIONS--
fermata
--FILE--
<?php
try {
    Fermata\Runtime::replaceWorker();
} catch (Fermata\Exception\MisuseError $error) {
    echo $error->getMessage(), "\n";
}
?>
--EXPECT--
Runtime::replaceWorker() replaces a worker of a server, and this process is none
