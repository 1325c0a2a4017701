// Writes for two orders, and once for neither.
package main

import (
	"os"
	"runtime"
	"sync"
	"time"
)

func work(order string, text string, out *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	os.WriteFile("/dev/null", []byte("KREPLAY1 txn="+order+"\n"), 0)
	// Without the lock, the goroutine might continue on any thread.
	time.Sleep(5 * time.Millisecond)
	out.WriteString(text)
	os.WriteFile("/dev/null", []byte("KREPLAY1 end\n"), 0)
}

func main() {
	out, _ := os.Create(os.Args[1])
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		work("order-8812", "first\n", out)
		both.Done()
	}()
	go func() {
		work("order-8813", "second\n", out)
		both.Done()
	}()
	both.Wait()
	out.WriteString("neither\n")
}
