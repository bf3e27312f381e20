/** Measures one repetition and prints it as JSON: `node --expose-gc bench/measure.ts WORKLOAD CONTENDER`. */
import type { Workload } from './workload.ts';

const [name = '', contender = ''] = process.argv.slice(2);
// Only this workload's module: the memory and the compiled code of what the others import would change its figures.
const exported: Record<string, Workload> = await import(`./workloads/${name}.ts`);
const workload = Object.values(exported).find(found => found.name === name);
if (workload === undefined) throw new Error(`bench/workloads/${name}.ts has no workload "${name}".`);
console.log(JSON.stringify(await workload.measure(contender)));
