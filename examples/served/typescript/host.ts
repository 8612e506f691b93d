// A small shop that sells what people answer, through a ledger that is served elsewhere.
//
//     LEDGER_ADDR=http://127.0.0.1:8080 LEDGER_TOKEN=... node build/host.js FOLDER
//
// FOLDER has shop.json, with the people and the orders. The host leaves there what it has followed, and what the first buyer gets.
// It may be run again: nothing is sold twice.

import { once, EventEmitter } from "node:events";
import { open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { done, items, Ledger, Problem, under, type Schemas } from "./sluice.js";

type Order = { id: string; buyer: string; epsilon: string; max_price: number };
type Shop = { people: Record<string, string>; orders: Order[] };

/** Writes down every event of the ledger, beside all else. */
class Follower extends EventEmitter {
  private last = 0;

  async follow(ledger: Ledger, path: string): Promise<void> {
    const file = await open(path, "w");
    for await (const event of ledger.events()) {
      await file.write(`${JSON.stringify(event)}\n`);
      this.last = event.event;
      this.emit("more");
    }
  }

  async waitFor(event: number): Promise<void> {
    while (this.last < event) {
      await once(this, "more", { signal: AbortSignal.timeout(60_000) });
    }
  }
}

/** Executes one order. Its id is the key: a repeated request with it gets the same sale. */
async function sell(ledger: Ledger, people: Shop["people"], order: Order): Promise<void> {
  const wanted = { buyer: order.buyer, question: "smoker", epsilon: order.epsilon, all: true };
  const quote = done(await ledger.ask.POST("/v1/quotes", { body: wanted }));
  console.log(`${order.id}: ${order.buyer} asks for ε = ${order.epsilon}: ${quote.objects} answers, ${quote.price}¢`);
  try {
    const sale = await ledger.sell(order.id, { ...wanted, max_price: order.max_price }, people);
    console.log(`${order.id}: sale ${sale.sale}, ${sale.price}¢, ${sale.draws} drawn`);
  } catch (error) {
    if (!(error instanceof Problem) || !["refused", "price"].includes(error.says.kind)) {
      throw error; // it may be sold or not: ask again, with the same id
    }
    console.log(`${order.id}: ${error.says.kind}`);
  }
}

async function main(folder: string, address: string, token: string): Promise<void> {
  const ledger = new Ledger(address, token);
  const shop: Shop = JSON.parse(await readFile(join(folder, "shop.json"), "utf8"));
  const follower = new Follower();
  follower.follow(ledger, join(folder, "events.ndjson")).catch(fail);

  done(await ledger.ask.POST("/v1/questions", { params: under("define"), body: { question: "smoker", values: ["yes", "no"] } }));
  const policy: Schemas["Policy"] = { kind: "market", max: "2", price: [["2", 200]] };
  const objects = Object.keys(shop.people).sort();
  done(await ledger.ask.POST("/v1/enrolments", { params: under("enrol"), body: { question: "smoker", objects, policy, cap: "2" } }));
  for (const order of shop.orders) {
    await sell(ledger, shop.people, order);
  }

  const sales: Schemas["Sale"][] = [];
  for await (const sale of items((from) => ledger.ask.GET("/v1/sales", { params: { query: { ...from, limit: 3 } } }))) {
    sales.push(sale);
  }
  const first = sales[0]!.sale;
  const receipt = await ledger.ask.GET("/v1/sales/{sale}/receipt", { params: { path: { sale: first } }, parseAs: "text" });
  await writeFile(join(folder, "receipt.json"), done<unknown>(receipt) as string); // as it came: it is verified byte by byte
  await follower.waitFor(sales.at(-1)!.last);
  process.exit(); // the follower would go on for ever
}

function fail(error: unknown): never {
  console.error(error);
  process.exit(1);
}

main(process.argv[2]!, process.env["LEDGER_ADDR"]!, process.env["LEDGER_TOKEN"]!).catch(fail);
