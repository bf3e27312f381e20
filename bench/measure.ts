/** One repetition in a process of its own: `node --expose-gc bench/measure.ts WORKLOAD CONTENDER`. */
import { findWorkload } from './workloads.ts';

const [workload = '', contender = ''] = process.argv.slice(2);
console.log(JSON.stringify(await findWorkload(workload).measure(contender)));
