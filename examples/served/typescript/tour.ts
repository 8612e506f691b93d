// A tour of a served ledger, with a client that is generated from its document (openapi-typescript, openapi-fetch).
//
//     LEDGER_ADDR=http://127.0.0.1:8080 LEDGER_TOKEN=... node build/tour.js FOLDER
//
// The ledger must be a new one. The tour leaves the receipt of the first sale in FOLDER.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { done, items, Ledger, withTruths, under, type Schemas } from "./sluice.js";

const people = { ana: "yes", ben: "no", eva: "yes", leo: "no" };
const all = Object.keys(people);

/** The host: it defines a question, enrols people under terms, changes them, and releases a response. */
async function host(ledger: Ledger): Promise<void> {
  done(await ledger.ask.POST("/v1/questions", { params: under("define"), body: { question: "smoker", values: ["yes", "no"], encoding: "direct" } }));
  const market: Schemas["PolicyMarket"] = { kind: "market", max: "2", price: [["1", 100], ["2", 300]] };
  const enrolled = done(
    await ledger.ask.POST("/v1/enrolments", { params: under("enrol"), body: { question: "smoker", objects: all, policy: market, cap: "3" } }),
  );
  console.log(`enrolled: ${enrolled.enrolled}`);
  const barred: Schemas["Policy"] = { ...market, barred: ["tabloid"] };
  const terms = done(await ledger.ask.POST("/v1/terms", { params: under("terms"), body: { question: "smoker", objects: ["leo"], policy: barred } }));
  console.log(`terms changed: ${terms.changed}`);
  const released = await withTruths(people, (needed) =>
    ledger.ask.POST("/v1/releases", { params: under("release"), body: { question: "smoker", object: "ana", epsilon: "0.25", ...needed } }),
  );
  console.log(`released: ${released.object} at ε = ${released.epsilon}`);
}

/** A buyer: a quote, a sale, an upgrade, and a reservation that is captured. */
async function buy(ledger: Ledger): Promise<Schemas["Sold"]> {
  const order = { buyer: "acme", question: "smoker", epsilon: "0.5", objects: all };
  const quote = done(await ledger.ask.POST("/v1/quotes", { body: order }));
  const sale = await ledger.sell("order-1", { ...order, quote_id: quote.id }, people);
  console.log(`sale ${sale.sale}: ${sale.objects} responses for ${sale.price} of ${quote.price} ${sale.currency}`);
  const upgrade = await ledger.sell("order-2", { ...order, epsilon: "1" }, people);
  console.log(`sale ${upgrade.sale}: ${upgrade.upgrades} upgrades for ${upgrade.price}`);
  const held = done(await ledger.ask.POST("/v1/reservations", { params: under("order-3"), body: { ...order, buyer: "zeta", for: "1h" } }));
  console.log(`reservation ${held.sale}: ${held.state}`);
  const captured = await withTruths(people, (needed) =>
    ledger.ask.POST("/v1/reservations/{reservation}/capture", { params: { path: { reservation: held.sale }, ...under("paid-3") }, body: needed }),
  );
  console.log(`sale ${captured.sale}: ${captured.resales} resales`);
  return sale;
}

/** What is refused, and why: the kinds and the reasons are closed lists, so that the compiler finds a word that is none. */
async function refusals(ledger: Ledger): Promise<void> {
  const order = { buyer: "tabloid", question: "smoker", epsilon: "1", objects: ["leo"] };
  const { refused } = done(await ledger.ask.POST("/v1/quotes", { body: order }));
  console.log(`refused: ${refused.map((one) => `${one.object}, ${one.reason}, ${one.helps} helps`).join("; ")}`);
  // @ts-expect-error: there is no such reason
  console.log(`a wrong word: ${refused[0]?.reason === "object-capp"}`);
  const { error } = await ledger.ask.POST("/v1/sales", { params: under("order-4"), body: order });
  switch (error?.kind) {
    case "refused":
      console.log(`problem: ${error.kind}, ${error.status}, ${error.refused?.length} refused`);
      break;
    // @ts-expect-error: this request has no such answer
    case "method":
      break;
    default:
      throw new Error(`the sale is answered with ${error?.kind}`);
  }
  const unknown = await ledger.ask.POST("/v1/quotes", { body: { ...order, question: "nothing" } });
  console.log(`problem: ${unknown.error?.kind}`);
  const conflict = await ledger.ask.POST("/v1/sales", { params: under("order-1"), body: order });
  console.log(`problem: ${conflict.error?.kind}`);
}

/** What is proven: a receipt and a statement. */
async function documents(ledger: Ledger, folder: string, sale: number): Promise<void> {
  const text = done<unknown>(await ledger.ask.GET("/v1/sales/{sale}/receipt", { params: { path: { sale } }, parseAs: "text" })) as string;
  await writeFile(join(folder, "receipt.json"), text); // as it came: it is verified byte by byte
  const receipt: Schemas["Receipt"] = JSON.parse(text);
  console.log(`${receipt.format}: ${receipt.responses.length} responses, ${receipt.price}`);
  const statement = done(await ledger.ask.POST("/v1/statements", { params: under("statement"), body: { object: "ana" } }));
  const sold = statement.events.filter((fact) => fact.kind === "sold").map((fact) => fact.price ?? 0);
  console.log(`${statement.format}: ${statement.object} has spent ε = ${statement.spent}, and earned ${statement.earned} by ${sold.length} sales`);
}

/** Lists, in parts of a few items, with filters and in both directions; and the log as it happens. */
async function lists(ledger: Ledger): Promise<void> {
  const numbers: number[] = [];
  for await (const sale of items((from) => ledger.ask.GET("/v1/sales", { params: { query: { ...from, buyer: "acme", limit: 1 } } }))) {
    numbers.push(sale.sale);
  }
  const newest = done(await ledger.ask.GET("/v1/sales", { params: { query: { order: "desc", limit: 1 } } }));
  console.log(`sales to acme: ${numbers}; the newest of all: ${newest.items[0]?.sale}`);
  const open = done(await ledger.ask.GET("/v1/reservations", { params: { query: { state: ["open", "captured"] } } }));
  console.log(`reservations: ${open.items.map((one) => one.state)}`);
  const counts: Partial<Record<Schemas["Event"]["kind"], number>> = {};
  let earned = 0;
  for await (const event of items((from) => ledger.ask.GET("/v1/events", { params: { query: { ...from, kind: ["sold", "sale"], limit: 5 } } }))) {
    counts[event.kind] = (counts[event.kind] ?? 0) + 1;
    earned += event.kind === "sold" ? event.price : 0; // the kind says which keys there are
  }
  console.log(`events: ${JSON.stringify(counts)}; people have earned ${earned}`);
  const { events } = done(await ledger.ask.GET("/v1/stats"));
  for await (const event of ledger.events()) {
    if (event.event === events) {
      console.log(`followed the log to its end: ${event.kind}`);
      return;
    }
  }
}

async function main(folder: string, address: string, token: string): Promise<void> {
  const ledger = new Ledger(address, token);
  await host(ledger);
  const sale = await buy(ledger);
  await refusals(ledger);
  const answered = await withTruths(people, (needed) =>
    ledger.ask.POST("/v1/answers", {
      params: under("answer"),
      body: { question: "smoker", query: "majority:yes", epsilon: "0.5", objects: all, accept_loss: true, ...needed },
    }),
  );
  console.log(`answered at ε = ${answered.epsilon} for ${answered.objects} people`);
  await documents(ledger, folder, sale.sale);
  await lists(ledger);
}

main(process.argv[2]!, process.env["LEDGER_ADDR"]!, process.env["LEDGER_TOKEN"]!).then(
  () => process.exit(), // the stream would go on for ever
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
