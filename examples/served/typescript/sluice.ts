// A small client of a served Sluice ledger, with the types of its OpenAPI document: copy it. `npm run build` generates them, as ledger.d.ts.
//
// Requests are repeated until they are answered, with the same key. So nothing is sold twice, or lost, when the server is killed.

import { setTimeout as sleep } from "node:timers/promises";
import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./ledger.js";

export type Schemas = components["schemas"];

/** The response of the ledger in place of a result, as in RFC 9457. */
export class Problem extends Error {
  constructor(readonly says: Schemas["Problem"]) {
    super(says.detail);
  }
}

export class Ledger {
  /** All requests, with types. A request that changes something needs a key, such as the id of your order. */
  readonly ask: Client<paths>;
  private readonly headers: { Authorization: string };

  constructor(
    private readonly address: string,
    token: string,
    private readonly patience = 300_000,
  ) {
    this.headers = { Authorization: `Bearer ${token}` };
    this.ask = createClient<paths>({ baseUrl: address, headers: this.headers, fetch: (request) => this.repeat(request) });
  }

  /** Sells under a key. Only the true values that a draw needs are sent. */
  sell(key: string, order: Schemas["Sell"], truths: Record<string, string>): Promise<Schemas["Sold"]> {
    return withTruths(truths, (needed) => this.ask.POST("/v1/sales", { params: under(key), body: { ...order, ...needed } }));
  }

  /** Follows the log without end, from the event after `after`. If a stream breaks, the next one continues after its last event. */
  async *events(after = 0): AsyncGenerator<Schemas["Event"]> {
    for (let pause = 0; ; pause = Math.min(2 * pause + 50, 5000)) {
      await sleep(pause);
      try {
        const quiet = new AbortController();
        const answer = await fetch(`${this.address}/v1/events`, {
          headers: { ...this.headers, Accept: "text/event-stream", "Last-Event-ID": `${after}` },
          signal: quiet.signal,
        });
        if (!answer.ok) {
          throw await problemOf(answer);
        }
        for await (const message of messages(answer, quiet)) {
          if (message.name === "problem") {
            throw new Problem(JSON.parse(message.data));
          }
          const event: Schemas["Event"] = JSON.parse(message.data);
          yield event;
          after = event.event;
          pause = 0;
        }
      } catch (error) {
        if (!passes(error)) {
          throw error;
        }
      }
    }
  }

  /**
   * Repeats a request until it gets a response. If that takes too long, it is unknown whether the request was done: repeat it later, with
   * the same key.
   */
  private async repeat(request: Request): Promise<Response> {
    const giveUp = Date.now() + this.patience;
    for (let pause = 50; ; pause = Math.min(2 * pause, 5000)) {
      try {
        const answer = await fetch(request.clone(), { signal: AbortSignal.timeout(60_000) });
        const { status, headers } = answer;
        if (answer.ok) {
          return new Response(await answer.arrayBuffer(), { status, headers }); // an incomplete response is requested again
        }
        const problem = await problemOf(answer);
        if (!passes(problem) || Date.now() > giveUp) {
          return Response.json(problem.says, { status });
        }
      } catch (error) {
        if (!passes(error) || Date.now() > giveUp) {
          throw error;
        }
      }
      await sleep(pause);
    }
  }
}

/** The response to a request: a result, or a problem. */
export type Answer<T> = { data?: T | undefined; error?: Schemas["Problem"] | undefined };

/** Returns the result of a request, or throws the problem. */
export function done<T>(answer: Answer<T>): T {
  if (answer.data === undefined) {
    throw answer.error ? new Problem(answer.error) : new Error("the response has neither a result nor a problem");
  }
  return answer.data;
}

/** The header with an idempotency key. */
export function under(key: string): { header: { "Idempotency-Key": string } } {
  return { header: { "Idempotency-Key": JSON.stringify(key) } };
}

/** Sends a request with only the true values that a draw needs. */
export async function withTruths<T>(
  truths: Record<string, string>,
  ask: (needed: { truths?: Record<string, string> }) => Promise<Answer<T>>,
): Promise<T> {
  const sent = new Map<string, string>();
  for (;;) {
    const answer = await ask(sent.size > 0 ? { truths: Object.fromEntries(sent) } : {});
    const needed = answer.error?.kind === "truth-needed" ? (answer.error.needs ?? []).flatMap((need) => need.objects) : [];
    if (needed.every((name) => sent.has(name))) {
      return done(answer);
    }
    needed.forEach((name) => sent.set(name, truths[name] ?? "")); // concurrent requests can make more of them necessary
  }
}

/** Reads all parts of a list. */
export async function* items<T>(read: (from: { after?: string }) => Promise<Answer<{ items: T[]; next?: string }>>): AsyncGenerator<T> {
  for (let from: { after?: string } = {}; ; ) {
    const part = done(await read(from));
    yield* part.items;
    if (part.next === undefined) {
      return;
    }
    from = { after: part.next };
  }
}

/**
 * Returns whether the same request may get another response later: after no response, or after a temporary error. 501 is permanent: the
 * server has no such route.
 */
function passes(error: unknown): boolean {
  if (error instanceof Problem) {
    return error.says.status === 429 || (error.says.status >= 500 && error.says.status !== 501);
  }
  return (error instanceof TypeError && error.cause !== undefined) || (error instanceof DOMException && ["AbortError", "TimeoutError"].includes(error.name));
}

async function problemOf(answer: Response): Promise<Problem> {
  if (answer.headers.get("Content-Type") === "application/problem+json") {
    return new Problem(await answer.json());
  }
  // The response is from a proxy, not from the ledger.
  return new Problem({ type: "about:blank", title: answer.statusText, status: answer.status, detail: answer.statusText, kind: "unreachable", exit: 1 });
}

/** Reads server-sent events. An empty line ends each event; an incomplete event is discarded. A heartbeat comes every 15 seconds. */
async function* messages(answer: Response, quiet: AbortController): AsyncGenerator<{ name: string; data: string }> {
  const alarm = setTimeout(() => quiet.abort(), 60_000);
  let rest = "";
  try {
    for await (const text of answer.body!.pipeThrough(new TextDecoderStream())) {
      alarm.refresh();
      const whole = (rest + text).split("\n\n");
      rest = whole.pop()!;
      for (const lines of whole.map((message) => message.split("\n"))) {
        const field = (name: string) => lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2)).join("\n");
        if (field("data") !== "") {
          yield { name: field("event"), data: field("data") };
        }
      }
    }
  } finally {
    clearTimeout(alarm);
  }
}
