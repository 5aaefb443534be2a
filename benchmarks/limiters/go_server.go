// The limiter of golang.org/x/time/rate behind one GET: go_server LIMIT SECONDS PORT
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/time/rate"
)

func main() {
	limit, _ := strconv.Atoi(os.Args[1])
	seconds, _ := strconv.Atoi(os.Args[2])
	each := time.Duration(seconds) * time.Second / time.Duration(limit)
	limiter := rate.NewLimiter(rate.Every(each), limit)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !limiter.Allow() {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, "refused")
			return
		}
		fmt.Fprint(w, "admitted")
	})
	http.ListenAndServe("127.0.0.1:"+os.Args[3], nil)
}
