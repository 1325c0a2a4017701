<?php
// Writes for two orders, and once for neither.
$out = fopen($argv[1], 'a');

function work($order, $text)
{
    global $out;
    file_put_contents('/dev/null', "KREPLAY1 txn=$order\n");
    fwrite($out, $text);
}

work('order-8812', "first\n");
work('order-8813', "second\n");
file_put_contents('/dev/null', "KREPLAY1 end\n");
fwrite($out, "neither\n");
