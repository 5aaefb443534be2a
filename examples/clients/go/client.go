// Package client is as applications write one for the real service: nothing here knows of ranksim.
package client

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Refused is a no that the service would say again.
type Refused struct{ Code, Detail string }

func (r *Refused) Error() string { return r.Code + ": " + r.Detail }

// Client waits as long as it is asked to, repeats what may have been lost, and does nothing twice.
type Client struct {
	URL, Key string
	HTTP     http.Client
	Sleep    func(time.Duration)
}

// Call sends a request, and reads the answer into one of the caller's.
func (c *Client) Call(method, path string, body, into any) error {
	sent := []byte{}
	if body != nil {
		sent, _ = json.Marshal(body)
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random)
	for wait := time.Second; wait <= 16*time.Second; wait *= 2 {
		request, err := http.NewRequest(method, c.URL+path, bytes.NewReader(sent))
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+c.Key)
		if body != nil {
			request.Header.Set("Content-Type", "application/json")
		}
		if method == "POST" {
			request.Header.Set("Idempotency-Key", hex.EncodeToString(random))
		}
		asked := wait
		answer, err := c.HTTP.Do(request)
		if err == nil { // else nobody knows whether it was done: once more, with its key
			again, err := read(answer, into)
			if !again {
				return err
			}
			if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
				asked = time.Duration(seconds) * time.Second
			}
		}
		c.Sleep(asked)
	}
	return fmt.Errorf("%s %s: no answer after 5 attempts", method, path)
}

func read(answer *http.Response, into any) (again bool, err error) {
	defer answer.Body.Close()
	if answer.StatusCode >= 500 {
		return true, nil
	}
	if answer.StatusCode < 300 {
		return false, json.NewDecoder(answer.Body).Decode(into)
	}
	refused := &Refused{}
	err = json.NewDecoder(answer.Body).Decode(refused)
	if err != nil {
		return false, err
	}
	return refused.Code == "rate_limited", refused
}

// Item is what lists are made of.
type Item struct{ ID, Host string }

// All items of a list, page by page.
func (c *Client) All(path string) (items []Item, err error) {
	for cursor := ""; ; {
		var page struct {
			Data       []Item
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
		}
		if err = c.Call("GET", path+"?limit=100"+cursor, nil, &page); err != nil {
			return
		}
		items = append(items, page.Data...)
		if !page.HasMore {
			return
		}
		cursor = "&cursor=" + page.NextCursor
	}
}

// Verified says whether a webhook is from the service, and not older than five minutes.
func Verified(body []byte, signature, secret string, now time.Time) bool {
	stamp, signed := "", ""
	for _, part := range strings.Split(signature, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "t":
			stamp = value
		case "v1":
			signed = value
		}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(stamp + "."))
	_, _ = mac.Write(body)
	return hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(signed))
}
