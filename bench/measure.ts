/** Measures one repetition and prints it as JSON: `node --expose-gc bench/measure.ts WORKLOAD CONTENDER`. */
import { findWorkload } from './workloads.ts';

const [workload = '', contender = ''] = process.argv.slice(2);
console.log(JSON.stringify(await findWorkload(workload).measure(contender)));
