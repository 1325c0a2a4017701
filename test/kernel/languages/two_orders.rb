# Writes for two orders, and once for neither.
OUT = File.open(ARGV[0], 'a')
OUT.sync = true

def work(order, text)
  File.write('/dev/null', "KREPLAY1 txn=#{order}\n")
  OUT.write(text)
end

work('order-8812', "first\n")
work('order-8813', "second\n")
File.write('/dev/null', "KREPLAY1 end\n")
OUT.write("neither\n")
