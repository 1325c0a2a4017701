// FOLDER [TRANSACTION]: makes 60 requests to one log, one after another, each in its own goroutine. Prints which took
// more than 250 ms. When it is recorded, the file system is frozen during one of them, for 300 ms.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func main() {
	folder, isRecorded := os.Args[1], len(os.Args) > 2
	log, _ := os.OpenFile(folder+"/log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if isRecorded {
		marker, _ := os.OpenFile("/dev/null", os.O_WRONLY, 0)
		marker.WriteString("KREPLAY1 proc txn=" + os.Args[2])
	}
	var slow []string
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
		if took := <-done; took > 250*time.Millisecond {
			slow = append(slow, strconv.Itoa(i))
		}
	}
	fmt.Println(strings.Join(slow, ","))
}
