// FOLDER [record]: makes 60 requests to one log, one after another, each in its own goroutine. Prints which took
// longest, and how many milliseconds. When it is recorded, the file system is frozen during one of them.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

func main() {
	folder, isRecorded := os.Args[1], len(os.Args) > 2
	log, _ := os.OpenFile(folder+"/log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if isRecorded {
		marker, _ := os.OpenFile("/dev/null", os.O_WRONLY, 0)
		marker.WriteString("KREPLAY1 proc txn=order")
	}
	var worst time.Duration
	at := 0
	for i := 0; i < 60; i++ {
		if i == 31 && isRecorded {
			exec.Command("fsfreeze", "--freeze", folder).Run()
			exec.Command("sh", "-c", "sleep 0.3; fsfreeze --unfreeze "+folder).Start()
		}
		done := make(chan time.Duration)
		go func() {
			start := time.Now()
			fmt.Fprintf(log, "request %d\n", i)
			log.Sync()
			done <- time.Since(start)
		}()
		if took := <-done; took > worst {
			worst, at = took, i
		}
	}
	fmt.Println(at, worst.Milliseconds())
}
