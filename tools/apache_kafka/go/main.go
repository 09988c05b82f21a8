// What Go applications do first, with the client at its defaults, again and again: make a topic, read in a new group,
// write in a first transaction, and write in transactions that go on. They begin on a line of standard input, which is
// asked for by the line "ready", and end when standard input does. A line for each time that one is done,
// "done=name=milliseconds", and for each error, "error=name=kind".
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience = 60 * time.Second
	retry    = 100 * time.Millisecond
	pause    = 500 * time.Millisecond
	replicas = 3
)

var (
	numbers  atomic.Int64
	isEnding atomic.Bool
	telling  sync.Mutex
)

type applications struct {
	servers, readTopic, copyTopic string
}

func main() {
	all := applications{os.Args[1], os.Args[2], os.Args[3]}
	if err := all.warmUp(); err != nil {
		panic(err)
	}
	fmt.Println("ready")
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err != nil {
		return
	}
	writer := &steadyWriter{of: all}
	var running sync.WaitGroup
	for name, attempt := range map[string]func(context.Context) error{
		"makes a topic":                     all.makeTopic,
		"reads in a new group":              all.read,
		"writes in a first transaction":     all.write,
		"writes in transactions that go on": writer.write,
	} {
		running.Go(func() { repeat(name, attempt) })
	}
	_, _ = io.Copy(io.Discard, input) // nothing is told but the end
	isEnding.Store(true)
	running.Wait()
}

// Uses the client once. No group and no transaction is asked for, so no internal topic is made.
func (all applications) warmUp() error {
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := all.makeTopic(limited); err != nil {
		return err
	}
	client, err := all.client(kgo.ConsumeTopics(all.readTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.ProduceSync(limited, &kgo.Record{Topic: all.copyTopic, Value: []byte("warm")}).FirstErr(); err != nil {
		return err
	}
	return client.PollFetches(limited).Err()
}

func repeat(name string, attempt func(context.Context) error) {
	for !isEnding.Load() {
		began := time.Now()
		for !succeeds(name, attempt) {
			if isEnding.Load() {
				return
			}
			time.Sleep(retry)
		}
		tell("done", name, fmt.Sprint(time.Since(began).Milliseconds()))
		time.Sleep(pause)
	}
}

func succeeds(name string, attempt func(context.Context) error) bool {
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := attempt(limited)
	if err != nil {
		tell("error", name, kindOf(err))
	}
	return err == nil
}

func tell(what, name, value string) {
	telling.Lock()
	defer telling.Unlock()
	fmt.Printf("%s=%s=%s\n", what, name, value)
}

// As librdkafka names what a killed broker does to a request that is on its way.
func kindOf(err error) string {
	var answered *kerr.Error
	var network net.Error
	switch {
	case errors.As(err, &answered):
		return answered.Message
	case errors.Is(err, context.DeadlineExceeded):
		return "no end within the time"
	case errors.As(err, &network), errors.Is(err, io.EOF):
		return "_TRANSPORT"
	default:
		return fmt.Sprintf("%T", err)
	}
}

func (all applications) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(all.servers, ",")...))...)
}

func (all applications) makeTopic(limited context.Context) error {
	client, err := all.client()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	name := fmt.Sprintf("made-in-go-%d", numbers.Add(1))
	least := "2"
	if _, err = admin.CreateTopic(limited, 1, replicas, map[string]*string{"min.insync.replicas": &least}, name); err != nil {
		return err
	}
	_, err = admin.DeleteTopic(limited, name)
	return err
}

func (all applications) read(limited context.Context) error {
	group := fmt.Sprintf("reads-in-go-%d", numbers.Add(1))
	start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	client, err := all.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(all.readTopic), start, kgo.DisableAutoCommit())
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetched := client.PollFetches(limited)
		if err := fetched.Err(); err != nil {
			return err
		}
		if records := fetched.Records(); len(records) > 0 {
			return client.CommitRecords(limited, records...)
		}
	}
}

func (all applications) write(limited context.Context) error {
	client, err := all.client(kgo.TransactionalID(fmt.Sprintf("writes-in-go-%d", numbers.Add(1))))
	if err != nil {
		return err
	}
	defer client.Close()
	return inTransaction(limited, client, all.copyTopic)
}

func inTransaction(limited context.Context, client *kgo.Client, topic string) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	record := &kgo.Record{Topic: topic, Value: []byte("go")}
	if err := client.ProduceSync(limited, record).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(limited, kgo.TryCommit)
}

// One client until an error comes; the next one fences it.
type steadyWriter struct {
	of     applications
	client *kgo.Client
}

func (writer *steadyWriter) write(limited context.Context) error {
	if writer.client == nil {
		client, err := writer.of.client(kgo.TransactionalID("goes-on-in-go"))
		if err != nil {
			return err
		}
		writer.client = client
	}
	err := inTransaction(limited, writer.client, writer.of.copyTopic)
	if err != nil {
		writer.client.Close()
		writer.client = nil
	}
	return err
}
