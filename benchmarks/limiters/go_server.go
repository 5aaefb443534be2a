// A limiter of Go behind one GET: go_server LIMITER LIMIT SECONDS PORT
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/juju/ratelimit"
	"golang.org/x/time/rate"
)

func main() {
	limit, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.Atoi(os.Args[3])
	each := time.Duration(seconds) * time.Second / time.Duration(limit)
	limiter := rate.NewLimiter(rate.Every(each), limit)
	bucket := ratelimit.NewBucket(each, int64(limit))
	allow := map[string]func() bool{
		"go-x-time-rate": limiter.Allow,
		"juju-ratelimit": func() bool { return bucket.TakeAvailable(1) == 1 },
	}[os.Args[1]]
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !allow() {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, "refused")
			return
		}
		fmt.Fprint(w, "admitted")
	})
	http.ListenAndServe("127.0.0.1:"+os.Args[4], nil)
}
