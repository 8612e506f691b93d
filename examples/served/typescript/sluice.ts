// A small client of a served Sluice ledger, with the types of its OpenAPI document: copy it. `npm run build` generates them, as ledger.d.ts.
//
// Requests are repeated until they are answered, with the same key. So nothing is sold twice, or lost, when the server is killed.

import { setTimeout as sleep } from "node:timers/promises";
import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./ledger.js";

export type Schemas = components["schemas"];

/** What the ledger answers in place of a result, by RFC 9457. */
export class Problem extends Error {
  constructor(readonly says: Schemas["Problem"]) {
    super(says.detail);
  }
}

export class Ledger {
  /** All that can be asked, with types. What changes something takes a key: the id of your order, once for each. */
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

  /** Sells under a key, with those true values that a draw needs, and no others. */
  sell(key: string, order: Schemas["Sell"], truths: Record<string, string>): Promise<Schemas["Sold"]> {
    return telling(truths, (told) => this.ask.POST("/v1/sales", { params: under(key), body: { ...order, ...told } }));
  }

  /** Follows the log from the event behind `after` on, for ever. Where a stream breaks off, the next one goes on. */
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
   * Repeats a request until it is answered. If that takes too long, nobody knows whether it was carried out: ask again later, with the
   * same key.
   */
  private async repeat(request: Request): Promise<Response> {
    const giveUp = Date.now() + this.patience;
    for (let pause = 50; ; pause = Math.min(2 * pause, 5000)) {
      try {
        const answer = await fetch(request.clone(), { signal: AbortSignal.timeout(60_000) });
        const { status, headers } = answer;
        if (answer.ok) {
          return new Response(await answer.arrayBuffer(), { status, headers }); // all of it, or it is asked for again
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

/** What a request is answered with: a result, or a problem. */
export type Answer<T> = { data?: T | undefined; error?: Schemas["Problem"] | undefined };

/** Returns the result of what was asked, or throws the problem. */
export function done<T>(answer: Answer<T>): T {
  if (answer.data === undefined) {
    throw answer.error ? new Problem(answer.error) : new Error("an answer without anything");
  }
  return answer.data;
}

/** The header with an idempotency key. */
export function under(key: string): { header: { "Idempotency-Key": string } } {
  return { header: { "Idempotency-Key": JSON.stringify(key) } };
}

/** Asks with those true values that a draw needs, and no others. */
export async function telling<T>(
  truths: Record<string, string>,
  ask: (told: { truths?: Record<string, string> }) => Promise<Answer<T>>,
): Promise<T> {
  const told = new Map<string, string>();
  for (;;) {
    const answer = await ask(told.size > 0 ? { truths: Object.fromEntries(told) } : {});
    const needed = answer.error?.kind === "truth-needed" ? (answer.error.needs ?? []).flatMap((need) => need.objects) : [];
    if (needed.every((name) => told.has(name))) {
      return done(answer);
    }
    needed.forEach((name) => told.set(name, truths[name] ?? "")); // more may be needed by then: others have asked, too
  }
}

/** Reads a list to its end, part by part. */
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
 * Tells whether the same request may have another answer later: nothing came, or it came from somebody who could not help it. 501 is for
 * good: this server does no such thing.
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
  // It is from something between here and the ledger.
  return new Problem({ type: "about:blank", title: answer.statusText, status: answer.status, detail: answer.statusText, kind: "unreachable", exit: 1 });
}

/** Reads server-sent events. An empty line ends each; one that breaks off before it is none. A sign of life comes every 15 seconds. */
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
