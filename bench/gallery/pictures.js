// Pictures, resized by sharp as a web server does it: pictures.js COUNT. It marks the end of its load (hak mark).
const fs = require("fs");
const sharp = require("../../build/gallery/node/node_modules/sharp");

const file = fs.readFileSync("build/gallery/picture.ppm");
const [head, width, height] = /^P6 (\d+) (\d+) 255\n/.exec(file.toString("latin1", 0, 40));
const picture = { raw: { width: +width, height: +height, channels: 3 } };

async function once(number) {
  const large = sharp(file.subarray(head.length), picture);
  const packed = await large.resize(400 + (number % 7) * 20).sharpen().jpeg().toBuffer();
  const small = await sharp(packed).resize(120).webp().toBuffer();
  if (small.length < 500) throw new Error("a picture is too small");
}

async function main() {
  for (let number = 0; number < +process.argv[2]; number += 4)
    await Promise.all([0, 1, 2, 3].map((each) => once(number + each)));
  if (process.env.HAK_MARK) {
    fs.writeFileSync(process.env.HAK_MARK, "\n");
    fs.readSync(fs.openSync(process.env.HAK_MARK + ".done"), Buffer.alloc(1));
  }
}

main();
