// FOLDER [record]: 16 goroutines write to a file each, and another one computes. Prints how many of them waited long,
// how many milliseconds the longest wait took, and which request of each took longest, such as 21,17. When it is
// recorded, the file system is frozen once.
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
		marker.WriteString("KREPLAY1 proc txn=order")
	}
	go func() {
		for end := time.Now().Add(4 * time.Millisecond); time.Now().Before(end); {
		}
	}()
	var wait sync.WaitGroup
	felt := make([]time.Duration, 16)
	longest := make([]string, 16)
	for g := range felt {
		wait.Add(1)
		go func(g int) {
			defer wait.Done()
			log, _ := os.OpenFile(fmt.Sprintf("%s/log%d", folder, g), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
			for i := 0; i < 40; i++ {
				start := time.Now()
				fmt.Fprintf(log, "request %d\n", i)
				log.Sync()
				if took := time.Since(start); took > felt[g] {
					felt[g] = took
					longest[g] = strconv.Itoa(i)
				}
				if g == 0 && i == 20 && isRecorded {
					exec.Command("fsfreeze", "--freeze", folder).Run()
					exec.Command("sh", "-c", "sleep 0.3; fsfreeze --unfreeze "+folder).Start()
				}
			}
		}(g)
	}
	wait.Wait()
	count := 0
	var worst time.Duration
	for _, took := range felt {
		if took > 200*time.Millisecond {
			count++
		}
		if took > worst {
			worst = took
		}
	}
	fmt.Println(count, worst.Milliseconds(), strings.Join(longest, ","))
}
