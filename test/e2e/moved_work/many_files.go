// FOLDER [TRANSACTION]: 16 goroutines write to a file each, and another one computes. Prints for each of them which of
// its requests took more than 250 ms, such as 21|17|. When it is recorded, the file system is frozen once, for 300 ms.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	folder, isRecorded := os.Args[1], len(os.Args) > 2
	if isRecorded {
		marker, _ := os.OpenFile("/dev/null", os.O_WRONLY, 0)
		marker.WriteString("KREPLAY1 proc txn=" + os.Args[2])
	}
	go func() {
		for end := time.Now().Add(4 * time.Millisecond); time.Now().Before(end); {
		}
	}()
	var wait sync.WaitGroup
	slow := make([]string, 16)
	var arrived sync.WaitGroup
	arrived.Add(len(slow))
	frozen := make(chan struct{})
	for g := range slow {
		wait.Add(1)
		go func(g int) {
			defer wait.Done()
			log, _ := os.OpenFile(fmt.Sprintf("%s/log%d", folder, g), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
			for i := 0; i < 40; i++ {
				start := time.Now()
				fmt.Fprintf(log, "request %d\n", i)
				log.Sync()
				if time.Since(start) > 250*time.Millisecond {
					slow[g] += strconv.Itoa(i) + ","
				}
				if i != 20 || !isRecorded {
					continue
				}
				// The next request of each goroutine finds the file system frozen.
				arrived.Done()
				if g == 0 {
					arrived.Wait()
					exec.Command("fsfreeze", "--freeze", folder).Run()
					close(frozen)
					exec.Command("sh", "-c", "sleep 0.3; fsfreeze --unfreeze "+folder).Start()
				}
				<-frozen
			}
		}(g)
	}
	wait.Wait()
	fmt.Println(strings.Join(slow, "|"))
}
